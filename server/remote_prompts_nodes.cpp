// RemotePrompts: the life of a prefill node, from its hello over a probe of the data plane to its loss.

#include "server/remote_prompts.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "common/log.h"
#include "server/pair_hello.h"
#include "server/pair_messages.h"

namespace lynx::server {
namespace {

/// 16 units over both lanes: what a first KV block sends, and enough to see a rate.
constexpr int kProbeBlocks = 8;
/// Longer than it takes a sender to notice a loss and send again.
constexpr std::int64_t kSilenceUs = 10'000'000;

}  // namespace

Status RemotePrompts::on_hello(int node, ConnectionId connection, const v1::NodeHello& peer) {
  LYNX_RETURN_IF_ERROR(check_compatible(options_.hello, peer));
  events_.post([this, node, connection, peer] { node_greeted(node, connection, peer); });
  return {};
}

void RemotePrompts::on_message(int node, v1::PrefillMessage message) {
  events_.post([this, node, message = std::move(message)] {
    take_message(node, message);
    carry_out();
  });
}

void RemotePrompts::on_lost(int node, const Status& why) {
  events_.post([this, node, why] { node_lost(node, why); });
}

void RemotePrompts::on_connected(SessionId session, const Status& status) {
  events_.post([this, session, status] { node_connected(session, status); });
}

// The control plane may not have noticed: it starts anew too, so that both ends agree on what is live.
void RemotePrompts::on_session_lost(SessionId session, const Status& why) {
  events_.post([this, session, why] {
    if (const auto index = by_session(session)) reset(*index, why.with_context("data plane"));
  });
}

void RemotePrompts::node_greeted(int index, ConnectionId connection, const v1::NodeHello& peer) {
  Node& node = nodes_[static_cast<std::size_t>(index)];
  node = {.session = next_session_++,
          .connection = connection,
          .same_numerics = same_numerics(options_.hello, peer),
          .profile = std::make_shared<const quant::PlaneProfile>(profile_of(peer))};
  const std::string& address = options_.nodes[static_cast<std::size_t>(index)];
  const bool news = std::exchange(logged_[static_cast<std::size_t>(index)].boot, peer.boot()) != peer.boot();
  if (news) {
    log_info("prefill node greeted", {{"node", address},
                                      {"model", peer.model()},
                                      {"isa", peer.isa()},
                                      {"numerics", peer.numerics()},
                                      {"same_numerics", node.same_numerics}});
  }
  if (news && !node.same_numerics) {
    log_warning("prefill node computes other bits: answers are right, but not bit for bit those of one node",
                {{"node", address}, {"ours", options_.hello.numerics()}, {"theirs", peer.numerics()}});
  }
  const auto differs = [&](const Node& other) { return other.profile != nullptr && other.profile->wide_k != node.profile->wide_k; };
  if (news && std::any_of(nodes_.begin(), nodes_.end(), differs)) {
    log_warning("prefill node has another plane profile than the others: they are drafted on in turns, and int4 answers differ",
                {{"node", address}});
  }
  show(index, [&](PrefillNodeStatus& status) {
    status.problem = "data plane not proven yet";
    status.model = peer.model();
    status.numerics = peer.numerics();
    status.same_numerics = node.same_numerics;
  });
  receiver_->connect(node.session, {.lanes = {peer.lanes().begin(), peer.lanes().end()}});
}

void RemotePrompts::node_connected(SessionId session, const Status& status) {
  const auto index = by_session(session);
  if (!index) return;
  if (!status.ok()) return reset(*index, status.with_context("data plane"));
  send_probe(*index);
}

void RemotePrompts::send_probe(int index) {
  Node& node = nodes_[static_cast<std::size_t>(index)];
  node.probe = next_probe_++;
  node.probe_sent_us = EventThread::now_us();
  const std::uint32_t unit_bytes = largest_unit_bytes(cache_->shape());
  const std::string secret = random_secret();
  receiver_->expect(node.session,
                    {.ticket = {options_.hello.boot(), node.probe},
                     .secret = to_ticket_secret(secret),
                     .layers = 1,
                     .blocks = kProbeBlocks,
                     .planes = {transport::Plane::kBf16},
                     .unit_bytes_max = unit_bytes},
                    make_probe_sink(unit_bytes));
  v1::DecodeMessage message;
  v1::Probe& probe = *message.mutable_probe();
  probe.set_number(node.probe);
  probe.set_secret(secret);
  probe.set_units(kProbeBlocks);
  probe.set_unit_bytes(unit_bytes);
  send(index, std::move(message));
}

// A node that owes data and sends none is given up, however well its control plane is. When to look again.
std::int64_t RemotePrompts::watch_data(std::int64_t now_us) {
  std::int64_t next_us = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (node.session == 0) continue;
    const std::uint64_t heard = receiver_->chunks_heard(node.session);
    const bool owes = node.probe != 0 || desk_.awaits_cache(static_cast<int>(i));
    const bool owed = std::exchange(node.owes, owes);
    if (std::exchange(node.heard, heard) != heard || !owed) node.quiet_since_us = now_us;
    if (!owes) continue;
    if (now_us - node.quiet_since_us >= kSilenceUs) {
      node.quiet_since_us = now_us;
      clients_[i]->reset({Code::kUnavailable, fmt::format("data plane: nothing came for {} s", kSilenceUs / 1'000'000)});
    }
    next_us = std::min(next_us, node.quiet_since_us + kSilenceUs);
  }
  return next_us;
}

void RemotePrompts::probe_done(int index, const Status& status) {
  Node& node = nodes_[static_cast<std::size_t>(index)];
  node.probe = 0;
  if (!status.ok()) return reset(index, status.with_context("probe of the data plane"));
  const transport::LinkInfo info = receiver_->link_info(node.session);
  if (const Status fits = check_transport(options_.require_transport, info); !fits.ok()) return reset(index, fits);
  const double seconds = static_cast<double>(std::max<std::int64_t>(1, EventThread::now_us() - node.probe_sent_us)) * 1e-6;
  const double rate = 2.0 * kProbeBlocks * largest_unit_bytes(cache_->shape()) / seconds;
  logged_[static_cast<std::size_t>(index)].problem.clear();
  desk_.node_up(index, &commands_);
  const bool up = desk_.node_is_up(index);
  show(index, [&](PrefillNodeStatus& shown) {
    shown.up = up;
    if (up) shown.problem.clear();
    shown.transport = info.transport;
    shown.device = info.device;
    shown.probe_bytes_per_s = rate;
  });
  log_info(up ? "prefill node ready" : "prefill node proven, but draining",
           {{"node", options_.nodes[static_cast<std::size_t>(index)]},
            {"transport", info.transport},
            {"device", info.device},
            {"probe_mb_per_s", rate * 1e-6}});
  carry_out();
}

void RemotePrompts::node_lost(int index, const Status& why) {
  Node& node = nodes_[static_cast<std::size_t>(index)];
  const std::string& address = options_.nodes[static_cast<std::size_t>(index)];
  const bool news = std::exchange(logged_[static_cast<std::size_t>(index)].problem, why.message()) != why.message();
  show(index, [&](PrefillNodeStatus& status) {
    status.up = false;
    status.problem = why.message();
  });
  // A node that is not there is asked for every second; one line about it is enough.
  if (news) log_warning("prefill node not available", {{"node", address}, {"reason", why.message()}});
  if (node.session != 0) receiver_->disconnect(node.session);
  if (node.probe != 0) receiver_->retire({options_.hello.boot(), node.probe});
  node = {};
  desk_.node_down(index, {Code::kUnavailable, fmt::format("prefill node {}: {}", address, why.message())}, &commands_);
  carry_out();
}

void RemotePrompts::take_message(int index, const v1::PrefillMessage& message) {
  switch (message.message_case()) {
    case v1::PrefillMessage::kFirstTokens: return take_first_tokens(index, message.first_tokens());
    case v1::PrefillMessage::kError:
      if (by_probe(message.error().number()) == index) return probe_done(index, status_of(message.error()));
      if (!desk_.computed_at(index, message.error().number())) return;  // As in take_first_tokens().
      return desk_.ticket_failed(message.error().number(), status_of(message.error()).with_context("prefill node"), &commands_);
    case v1::PrefillMessage::kDraining:
      show(index, [](PrefillNodeStatus& status) {
        status.up = false;
        status.problem = "draining";
      });
      return desk_.node_draining(index);
    case v1::PrefillMessage::kHello:
    case v1::PrefillMessage::MESSAGE_NOT_SET: return;  // A newer peer's, or nonsense: nothing depends on it.
  }
}

std::optional<int> RemotePrompts::by_session(SessionId session) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].session == session) return static_cast<int>(i);
  }
  return std::nullopt;
}

std::optional<int> RemotePrompts::by_probe(std::uint64_t number) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].probe == number && number != 0) return static_cast<int>(i);
  }
  return std::nullopt;
}

void RemotePrompts::reset(int index, const Status& why) {
  clients_[static_cast<std::size_t>(index)]->reset(why);
}

void RemotePrompts::show(int index, const std::function<void(PrefillNodeStatus&)>& change) {
  const std::lock_guard lock(shown_mutex_);
  change(shown_[static_cast<std::size_t>(index)]);
}

}  // namespace lynx::server
