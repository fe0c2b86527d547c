#include "server/prompt_server.h"

#include <optional>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "common/log.h"
#include "server/cache_units.h"
#include "server/generation.h"
#include "server/pair_hello.h"
#include "server/pair_messages.h"

namespace lynx::server {

using transport::Lane;

PromptServer::PromptServer(PromptServerOptions options, transport::Link* link, kv::KvCache* cache)
    : options_(std::move(options)), link_(link), cache_(cache), pair_(options_.secret, this) {}

Result<std::unique_ptr<PromptServer>> PromptServer::create(PromptServerOptions options, transport::Link* link, kv::KvCache* cache) {
  add_data_plane(*link, &options.hello);
  add_profile(options.profile, &options.hello);
  std::unique_ptr<PromptServer> self(new PromptServer(std::move(options), link, cache));
  const KvSenderOptions sender{.residual_delay_us = self->options_.residual_delay_us,
                               .unit_bytes_max = largest_unit_bytes(cache->shape())};
  LYNX_TRY(self->sender_, KvSender::create(sender, link, self.get()));
  link->start(self->sender_.get());
  return self;
}

PromptServer::~PromptServer() {
  stop();
}

void PromptServer::start(Engine* engine) {
  const std::lock_guard lock(mutex_);
  engine_ = engine;
}

void PromptServer::begin_drain() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  v1::PrefillMessage message;
  message.mutable_draining();
  pair_.send_to_all(message);
}

void PromptServer::stop() {
  link_->stop();
}

PromptServerStats PromptServer::stats() const {
  const std::lock_guard lock(mutex_);
  PromptServerStats stats = stats_;
  stats.sessions = static_cast<int>(sessions_.size());
  stats.tickets = static_cast<int>(tickets_.size());
  stats.transfer = sender_->stats();
  return stats;
}

void PromptServer::begin(const Generation& generation, std::span<const kv::BlockId> blocks) {
  const std::lock_guard lock(mutex_);
  const auto found = by_request_id_.find(generation.request.request_id);
  if (found == by_request_id_.end()) return;
  const Key key = found->second;
  Ticket& ticket = tickets_.at(key);
  ticket.engine_id = generation.id;
  engine_ids_.emplace(generation.id, key);
  if (!ticket.cache || ticket.unwanted) return;
  ticket.sending = true;
  const std::uint32_t unit_bytes = largest_unit_bytes(cache_->shape());
  const PromptCoding coding{.mode = ticket.mode, .profile = options_.profile, .isa = options_.isa};
  const PromptBlocks prompt{.cache = cache_, .blocks = {blocks.begin(), blocks.end()}, .tokens = generation.prompt_tokens()};
  sender_->open({.session = key.session,
                 .ticket = ticket.wire,
                 .secret = ticket.secret,
                 .unit_bytes_max = unit_bytes,
                 .expected_bytes = about_first_bytes(cache_->shape(), prompt.tokens, ticket.mode)},
                make_cache_source(prompt, coding));
  outgoing_.emplace(generation.id, Outgoing{ticket.wire, prompt.tokens, coding});
}

void PromptServer::layer_stored(int layer, std::span<const scheduler::PassItem> pass) {
  for (const scheduler::PassItem& item : pass) {
    const auto it = outgoing_.find(item.sequence.request);
    if (it == outgoing_.end() || item.kind != scheduler::PassKind::kPrefill) continue;
    const auto& [ticket, prompt_tokens, coding] = it->second;
    const int end = item.start + item.count;
    auto units = completed_units(layer, item.start, end, prompt_tokens, coding);
    if (!units.first.empty()) sender_->add_units(ticket, Lane::kHigh, std::move(units.first));
    if (!units.residuals.empty()) sender_->add_units(ticket, Lane::kBackground, std::move(units.residuals));
    if (end == prompt_tokens && layer + 1 == cache_->shape().layers) sender_->finish(ticket);
  }
}

void PromptServer::end(scheduler::RequestId id, const Status& why) {
  outgoing_.erase(id);
  const auto engine_id = engine_ids_.extract(id);
  const std::lock_guard lock(mutex_);
  const auto it = engine_id.empty() ? tickets_.end() : tickets_.find(engine_id.mapped());
  if (it == tickets_.end()) return post_({.kind = TransferEvent::Kind::kReleased, .request = id});
  it->second.engine_done = true;
  if (!why.ok()) make_unwanted(it);
  erase_if_over(it);
}

void PromptServer::on_connected(SessionId session, const Status& status) {
  if (!status.ok()) return pair_.close(session, status.with_context("data plane"));
  const transport::LinkInfo info = sender_->link_info(session);
  log_info("data plane to a decode node", {{"session", session}, {"transport", info.transport}, {"device", info.device}});
  if (const Status fits = check_transport(options_.require_transport, info); !fits.ok()) pair_.close(session, fits);
}

void PromptServer::on_session_lost(SessionId session, const Status& why) {
  log_warning("data plane to a decode node lost", {{"session", session}, {"reason", why.message()}});
  pair_.close(session, Status(Code::kUnavailable, why.message()).with_context("data plane"));
}

void PromptServer::on_delivered(const transport::TicketId& ticket) {
  sender_done(ticket, true);
}
void PromptServer::on_closed(const transport::TicketId& ticket) {
  sender_done(ticket, false);
}

// A transfer that the sender gave up by itself is told: the decode node would wait for the rest of it.
void PromptServer::sender_done(const transport::TicketId& ticket, bool delivered) {
  std::optional<Key> given_up;
  {
    const std::lock_guard lock(mutex_);
    const auto key = by_wire_.find({ticket.boot, ticket.request});
    if (key == by_wire_.end()) return;
    const auto it = tickets_.find(key->second);
    it->second.sending = false;
    if (!delivered && !it->second.unwanted) given_up = it->first;
    erase_if_over(it);
  }
  if (!given_up) return;
  v1::PrefillMessage message;
  *message.mutable_error() = make_error(given_up->number, {Code::kDataLoss, "the transfer of the KV cache was given up"});
  pair_.send(given_up->session, std::move(message));
}

// nullptr: its number is taken, here or by an earlier session of the same node.
PromptServer::Ticket* PromptServer::add(const Key& key, std::string request_id, const std::string& secret) {
  const auto session = sessions_.find(key.session);
  if (session == sessions_.end()) return nullptr;
  const transport::TicketId wire{session->second, key.number};
  if (!by_wire_.try_emplace({wire.boot, wire.request}, key).second) return nullptr;
  by_request_id_.emplace(request_id, key);
  Ticket& ticket = tickets_[key];
  ticket = {.request_id = std::move(request_id), .wire = wire, .secret = to_ticket_secret(secret)};
  return &ticket;
}

void PromptServer::make_unwanted(Tickets::iterator it) {
  auto& [key, ticket] = *it;
  if (std::exchange(ticket.unwanted, true)) return;
  if (ticket.sending) sender_->abort(ticket.wire);
}

void PromptServer::erase_if_over(Tickets::iterator it) {
  const auto& [key, ticket] = *it;
  if (!ticket.engine_done || !ticket.unwanted || ticket.sending) return;
  if (ticket.engine_id != 0) post_({.kind = TransferEvent::Kind::kReleased, .request = ticket.engine_id});
  by_request_id_.erase(ticket.request_id);
  by_wire_.erase({ticket.wire.boot, ticket.wire.request});
  tickets_.erase(it);
}

}  // namespace lynx::server
