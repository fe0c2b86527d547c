#include "server/remote_prompts.h"

#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "common/log.h"
#include "server/cache_units.h"
#include "server/pair_hello.h"
#include "server/pair_messages.h"

namespace lynx::server {

using scheduler::TicketCommand;
using transport::TicketId;

RemotePrompts::RemotePrompts(RemotePromptsOptions options, transport::Link* link, kv::KvCache* cache, kv::AnchorCache* anchors)
    : options_(std::move(options)),
      link_(link),
      cache_(cache),
      anchors_(anchors),
      desk_({.nodes = static_cast<int>(options_.nodes.size())}),
      nodes_(options_.nodes.size()),
      logged_(options_.nodes.size()),
      next_probe_(std::uint64_t{1} << 63),  // Tickets count from 1: the two never meet.
      shown_(options_.nodes.size()) {
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    shown_[i].address = options_.nodes[i];
    shown_[i].problem = "not connected yet";
  }
}

Result<std::unique_ptr<RemotePrompts>> RemotePrompts::create(RemotePromptsOptions options, transport::Link* link,
                                                             kv::KvCache* cache, kv::AnchorCache* anchors) {
  add_data_plane(*link, &options.hello);
  std::unique_ptr<RemotePrompts> self(new RemotePrompts(std::move(options), link, cache, anchors));
  const KvReceiverOptions receiver{.unit_bytes_max = largest_unit_bytes(cache->shape())};
  LYNX_TRY(self->receiver_, KvReceiver::create(receiver, link, self.get()));
  PairClientEvents* const client_events = self.get();
  for (std::size_t i = 0; i < self->options_.nodes.size(); ++i) {
    self->clients_.push_back(
        std::make_unique<PairClient>(static_cast<int>(i), self->options_.nodes[i], self->options_.secret, client_events));
  }
  return self;
}

RemotePrompts::~RemotePrompts() {
  stop();
}

void RemotePrompts::start(std::function<void(bool)> on_ready) {
  on_ready_ = std::move(on_ready);
  events_.start([this](std::int64_t now_us) {
    desk_.tick(now_us, &commands_);
    carry_out();
    return std::min(desk_.next_tick_us(), watch_data(now_us));
  });
  link_->start(receiver_.get());
  for (const auto& client : clients_) client->start();
}

void RemotePrompts::stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& client : clients_) client->stop();
  link_->stop();
  events_.stop();
}

std::vector<PrefillNodeStatus> RemotePrompts::nodes() const {
  const std::lock_guard lock(shown_mutex_);
  return shown_;
}

RemotePromptsStats RemotePrompts::stats() const {
  RemotePromptsStats stats;
  {
    const std::lock_guard lock(shown_mutex_);
    stats = stats_;
  }
  stats.transfer = receiver_->stats();
  return stats;
}

// What a ticket needs is copied here: the engine goes on, and a ticket may be cut again long after.
void RemotePrompts::begin(const Generation& generation, std::span<const kv::BlockId> blocks) {
  Order order;
  order.ticket = make_ticket(generation);
  order.mode = generation.request.transfer.value_or(options_.transfer);
  order.ticket.set_transfer(std::string(transfer_mode_name(order.mode)));
  order.prompt = {.cache = cache_, .blocks = {blocks.begin(), blocks.end()}, .tokens = generation.prompt_tokens()};
  events_.post([this, id = generation.id, order = std::move(order)]() mutable {
    const scheduler::TicketWish wish{.prompt_tokens = order.prompt.tokens, .cache = order.ticket.cache()};
    orders_.insert_or_assign(id, std::move(order));
    desk_.want(id, wish, EventThread::now_us(), &commands_);
    carry_out();
  });
}

void RemotePrompts::end(scheduler::RequestId id, const Status&) {
  events_.post([this, id] {
    desk_.end(id, &commands_);
    carry_out();
  });
}

// Carrying out a command may lead to further ones.
void RemotePrompts::carry_out() {
  while (!commands_.empty()) {
    for (const TicketCommand& command : std::exchange(commands_, {})) carry_out(command);
  }
  tell_readiness();
  const std::lock_guard lock(shown_mutex_);
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    shown_[i].outstanding_prompt_tokens = desk_.outstanding_tokens(static_cast<int>(i));
  }
}

void RemotePrompts::tell_readiness() {
  bool ready = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) ready = ready || desk_.node_is_up(static_cast<int>(i));
  if (std::exchange(ready_, ready) != ready) on_ready_(ready);
}

void RemotePrompts::carry_out(const TicketCommand& command) {
  using Kind = TicketCommand::Kind;
  switch (command.kind) {
    case Kind::kIssue: return issue(command);
    case Kind::kCancel: return tell(command, false);
    case Kind::kRelease: return tell(command, true);
    // Also where nothing was expected: it is answered all the same.
    case Kind::kRetire: return receiver_->retire({options_.hello.boot(), command.ticket});
    case Kind::kAnchored: return tell_anchored(command.request);
    case Kind::kAnchorsLost: return post_({.kind = TransferEvent::Kind::kAnchorsLost, .request = command.request});
    case Kind::kArrived: return notify(command.request, TransferEvent::Kind::kArrived);
    case Kind::kReleased: return notify(command.request, TransferEvent::Kind::kReleased);
    case Kind::kFailed: return notify(command.request, TransferEvent::Kind::kFailed, command.why);
  }
}

void RemotePrompts::issue(const TicketCommand& command) {
  Order& order = orders_.at(command.request);
  Node& node = nodes_[static_cast<std::size_t>(command.node)];
  const bool again = std::exchange(order.number, command.ticket) != 0;
  const std::string secret = random_secret();
  order.ticket.set_number(command.ticket);
  order.ticket.set_secret(secret);
  if (order.ticket.cache()) {
    order.profile = node.profile;
    const PromptCoding coding{.mode = order.mode, .profile = *node.profile, .isa = options_.isa};
    auto expectation = expect_units(cache_->shape(), order.prompt.tokens, coding);
    expectation.ticket = {options_.hello.boot(), command.ticket};
    expectation.secret = to_ticket_secret(secret);
    receiver_->expect(node.session, std::move(expectation), make_cache_sink(order.prompt, coding, anchors_, options_.draft_noise));
  }
  log_debug("ticket", {{"request_id", order.ticket.request_id()},
                       {"ticket", command.ticket},
                       {"node", options_.nodes[static_cast<std::size_t>(command.node)]},
                       {"again", again}});
  v1::DecodeMessage message;
  *message.mutable_ticket() = order.ticket;
  send(command.node, std::move(message));
  const std::lock_guard lock(shown_mutex_);
  ++stats_.tickets;
  if (again) ++stats_.tickets_again;
}

void RemotePrompts::tell(const TicketCommand& command, bool release) {
  v1::DecodeMessage message;
  (release ? message.mutable_release() : message.mutable_cancel())->set_number(command.ticket);
  send(command.node, std::move(message));
}

void RemotePrompts::send(int node, v1::DecodeMessage message) {
  const auto index = static_cast<std::size_t>(node);
  clients_[index]->send(nodes_[index].connection, std::move(message));
}

void RemotePrompts::anchors_let_go(scheduler::RequestId id) {
  events_.post([this, id] {
    desk_.anchors_let_go(id, &commands_);
    carry_out();
  });
}

void RemotePrompts::tell_anchored(scheduler::RequestNumber request) {
  const Order& order = orders_.at(request);
  post_({.kind = TransferEvent::Kind::kAnchored, .request = request, .profile = order.profile, .mode = order.mode});
}

void RemotePrompts::notify(scheduler::RequestNumber request, TransferEvent::Kind kind, Status why) {
  TransferEvent event{.kind = kind, .request = request, .why = std::move(why)};
  if (kind == TransferEvent::Kind::kFailed) {
    const std::lock_guard lock(shown_mutex_);
    ++stats_.tickets_failed;
  } else if (const auto order = orders_.extract(request); !order.empty()) {
    event.mode = order.mapped().mode;
    event.bytes = order.mapped().bytes;
  }
  post_(std::move(event));
}

void RemotePrompts::take_first_tokens(int index, const v1::FirstTokens& message) {
  const auto request = desk_.computed_at(index, message.number());
  if (!request) return;  // It was cancelled at that moment, or is none of this node's.
  auto outputs = outputs_of(message, orders_.at(*request).ticket, options_.vocabulary);
  if (!outputs.ok()) return desk_.ticket_failed(message.number(), outputs.status().with_context("prefill node"), &commands_);
  post_({.kind = TransferEvent::Kind::kFirstTokens,
         .request = *request,
         .first_tokens = std::move(outputs->tokens),
         .prompt_scores = std::move(outputs->prompt_scores),
         .same_numerics = nodes_[static_cast<std::size_t>(index)].same_numerics,
         .mode = orders_.at(*request).mode});
  desk_.first_tokens(message.number(), &commands_);
}

void RemotePrompts::transfer_anchored(std::uint64_t number) {
  desk_.anchored(number, &commands_);
  carry_out();
}

void RemotePrompts::transfer_complete(std::uint64_t number, const transport::TransferBytes& bytes) {
  {
    const std::lock_guard lock(shown_mutex_);
    ++stats_.caches_arrived;
  }
  if (const auto request = desk_.request_of(number)) orders_.at(*request).bytes = bytes;
  desk_.arrived(number, &commands_);
  carry_out();
}

void RemotePrompts::transfer_failed(std::uint64_t number, const Status& why) {
  log_warning("a KV cache did not arrive whole", {{"ticket", number}, {"reason", why.message()}});
  desk_.ticket_failed(number, why, &commands_);
  carry_out();
}

void RemotePrompts::on_complete(const TicketId& ticket, const transport::TransferBytes& bytes) {
  events_.post([this, number = ticket.request, bytes] {
    if (const auto index = by_probe(number)) return probe_done(*index, {});
    transfer_complete(number, bytes);
  });
}

void RemotePrompts::on_anchored(const TicketId& ticket) {
  events_.post([this, number = ticket.request] { transfer_anchored(number); });
}

void RemotePrompts::on_failed(const TicketId& ticket, const Status& why) {
  events_.post([this, number = ticket.request, why] {
    if (const auto index = by_probe(number)) return probe_done(*index, why);
    transfer_failed(number, why);
  });
}

void RemotePrompts::on_retired(const TicketId& ticket) {
  events_.post([this, number = ticket.request] {
    desk_.retired(number, EventThread::now_us(), &commands_);
    carry_out();
  });
}

}  // namespace lynx::server
