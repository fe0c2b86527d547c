// PromptServer: what decode nodes say, and what they are told.

#include <utility>

#include <spdlog/fmt/fmt.h>

#include "common/log.h"
#include "server/cache_units.h"
#include "server/pair_hello.h"
#include "server/pair_messages.h"
#include "server/prompt_server.h"

namespace lynx::server {
namespace {

/// A probe is small; whoever wants more has a ticket.
constexpr std::uint32_t kMostProbeUnits = 64;

}  // namespace

/// Takes what the engine's request gives: its one update.
class PromptServer::FirstTokenSink final : public UpdateSink {
 public:
  FirstTokenSink(PromptServer* owner, const Key& key) : owner_(owner), key_(key) {}
  void on_update(GenerationUpdate update) override { owner_->take_update(key_, update); }

 private:
  PromptServer* const owner_;
  const Key key_;
};

Result<v1::NodeHello> PromptServer::on_hello(SessionId session, const v1::NodeHello& peer) {
  LYNX_RETURN_IF_ERROR(check_compatible(options_.hello, peer));
  const std::lock_guard lock(mutex_);
  if (engine_ == nullptr) return Status(Code::kUnavailable, "the model is still loading");
  if (draining_) return Status(Code::kUnavailable, "the node is draining");
  sessions_[session] = peer.boot();
  sender_->connect(session, {.lanes = {peer.lanes().begin(), peer.lanes().end()}});
  log_info("decode node greeted", {{"session", session},
                                   {"isa", peer.isa()},
                                   {"numerics", peer.numerics()},
                                   {"same_numerics", same_numerics(options_.hello, peer)}});
  return options_.hello;
}

void PromptServer::on_message(SessionId session, const v1::DecodeMessage& message) {
  switch (message.message_case()) {
    case v1::DecodeMessage::kTicket: return take_ticket(session, message.ticket());
    case v1::DecodeMessage::kProbe: return take_probe(session, message.probe());
    case v1::DecodeMessage::kCancel: return unwanted({session, message.cancel().number()});
    case v1::DecodeMessage::kRelease: return released({session, message.release().number()});
    case v1::DecodeMessage::kHello:
    case v1::DecodeMessage::MESSAGE_NOT_SET: return;  // A newer peer's, or nonsense: nothing depends on it.
  }
}

void PromptServer::take_ticket(SessionId session, const v1::Ticket& message) {
  const Key key{session, message.number()};
  auto request = request_of(message);
  if (!request.ok()) return refuse(key, request.status().with_context("ticket"));
  request->request_id = fmt::format("{}#{}.{}", message.request_id().substr(0, 128), session, key.number);
  Engine* engine = nullptr;
  {
    const std::lock_guard lock(mutex_);
    Ticket* const ticket = add(key, request->request_id, message.secret());
    if (ticket == nullptr) return;  // The first one with this number counts.
    ticket->mode = *request->transfer;
    ticket->cache = message.cache();
    ++stats_.tickets_total;
    engine = engine_;
  }
  const Status status = engine->submit(*std::move(request), std::make_shared<FirstTokenSink>(this, key));
  if (!status.ok()) refuse(key, status);
}

// The ticket is answered.
void PromptServer::refuse(const Key& key, const Status& why) {
  bool awaited = true;
  {
    const std::lock_guard lock(mutex_);
    const auto it = tickets_.find(key);
    // Whoever cancelled waits for no answer, and nothing failed.
    awaited = why.code() != Code::kCancelled || (it != tickets_.end() && !it->second.unwanted);
    if (awaited) ++stats_.tickets_failed;
    // Not admitted: the engine has nothing of it to let go, and end() will not come.
    if (it != tickets_.end() && it->second.engine_id == 0) {
      it->second.engine_done = true;
      make_unwanted(it);
      erase_if_over(it);
    }
  }
  if (!awaited) return;
  v1::PrefillMessage message;
  *message.mutable_error() = make_error(key.number, why);
  pair_.send(key.session, std::move(message));
}

void PromptServer::take_update(const Key& key, const GenerationUpdate& update) {
  if (!update.error.ok()) return refuse(key, update.error);
  v1::PrefillMessage message;
  *message.mutable_first_tokens() = make_first_tokens(key.number, update);
  pair_.send(key.session, std::move(message));
}

void PromptServer::take_probe(SessionId session, const v1::Probe& message) {
  const Key key{session, message.number()};
  const std::uint32_t unit_bytes = largest_unit_bytes(cache_->shape());
  if (message.units() < 1 || message.units() > kMostProbeUnits || message.unit_bytes() != unit_bytes) {
    return refuse(key, invalid_argument(fmt::format("probe: {} units of {} bytes", message.units(), message.unit_bytes())));
  }
  if (const Status secret = check_ticket_secret(message.secret()); !secret.ok()) return refuse(key, secret.with_context("probe"));
  const std::lock_guard lock(mutex_);
  Ticket* const ticket = add(key, fmt::format("probe#{}.{}", session, key.number), message.secret());
  if (ticket == nullptr) return;
  ticket->engine_done = true;
  ticket->unwanted = true;  // It goes as soon as it is delivered.
  ticket->sending = true;
  sender_->open({.session = session,
                 .ticket = ticket->wire,
                 .secret = ticket->secret,
                 .unit_bytes_max = unit_bytes,
                 .expected_bytes = std::uint64_t{2} * message.units() * unit_bytes},
                make_probe_source(unit_bytes));
  std::vector<transport::UnitKey> k;
  std::vector<transport::UnitKey> v;
  for (std::uint32_t block = 0; block < message.units(); ++block) {
    k.push_back({0, transport::Part::kK, transport::Plane::kBf16, block});
    v.push_back({0, transport::Part::kV, transport::Plane::kBf16, block});
  }
  sender_->add_units(ticket->wire, transport::Lane::kHigh, std::move(k));
  sender_->add_units(ticket->wire, transport::Lane::kBackground, std::move(v));
  sender_->finish(ticket->wire);
}

void PromptServer::released(const Key& key) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = tickets_.find(key);
    if (it != tickets_.end() && it->second.cache) ++stats_.caches_delivered;
  }
  unwanted(key);
}

// Nobody needs this prompt any more: what is left of computing and sending it ends.
void PromptServer::unwanted(const Key& key) {
  std::string cancel;
  Engine* engine = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto it = tickets_.find(key);
    if (it == tickets_.end()) return;
    make_unwanted(it);
    if (!it->second.engine_done) cancel = it->second.request_id;
    erase_if_over(it);
    engine = engine_;
  }
  if (!cancel.empty()) engine->cancel(cancel);
}

void PromptServer::on_closed(SessionId session) {
  std::vector<Key> keys;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, ticket] : tickets_) {
      if (key.session == session) keys.push_back(key);
    }
  }
  for (const Key& key : keys) unwanted(key);
  log_info("decode node left", {{"session", session}, {"tickets", keys.size()}});
  sender_->disconnect(session);
  const std::lock_guard lock(mutex_);
  sessions_.erase(session);
}

}  // namespace lynx::server
