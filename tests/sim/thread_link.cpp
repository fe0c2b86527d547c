#include "tests/sim/thread_link.h"

#include <algorithm>
#include <utility>

namespace lynx::sim {

using namespace lynx::transport;

ThreadLink::ThreadLink(ThreadSwitch* network, std::string name) : network_(network), name_(std::move(name)) {
  std::lock_guard lock(network_->mutex);
  network_->links[name_] = this;
}

ThreadLink::~ThreadLink() {
  stop();
}

void ThreadLink::start(LinkHandler* handler) {
  handler_ = handler;
  thread_ = std::thread([this] { run(); });
}

void ThreadLink::stop() {
  {
    std::lock_guard lock(network_->mutex);
    network_->links.erase(name_);
  }
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ThreadLink::wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

Result<PeerId> ThreadLink::connect(const LinkAddress& peer) {
  const PeerId id = next_peer_++;
  peers_[id] = peer.lanes.at(0);
  return id;
}

void ThreadLink::send(PeerId peer, Lane lane, const WireBytes& header, std::span<const std::byte> payload, std::uint64_t token) {
  sent_.push_back(token);
  auto name = peers_.find(peer);
  if (name == peers_.end()) return;
  std::lock_guard lock(network_->mutex);
  auto found = network_->links.find(name->second);
  if (found != network_->links.end()) found->second->deliver({lane, header, {payload.begin(), payload.end()}});
}

void ThreadLink::deliver(Message message) {
  {
    std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(message));
  }
  changed_.notify_all();
}

void ThreadLink::run() {
  std::int64_t tick_us = 0;
  for (;;) {
    std::deque<Message> messages;
    bool woken = false;
    {
      std::unique_lock lock(mutex_);
      const auto something = [this] { return stopping_ || woken_ || !inbox_.empty() || !sent_.empty(); };
      // At most a day: the clock does not take the end of time.
      const std::int64_t wait_us = std::min<std::int64_t>(std::max<std::int64_t>(tick_us - now_us(), 0), 86'400'000'000);
      changed_.wait_for(lock, std::chrono::microseconds(wait_us), something);
      if (stopping_) return;
      woken = std::exchange(woken_, false);
      messages.swap(inbox_);
    }
    for (const Message& each : messages) handler_->on_message(each.lane, each.header, each.payload);
    for (std::uint64_t token : std::exchange(sent_, {})) handler_->on_sent(token, {});
    if (woken || now_us() >= tick_us) tick_us = handler_->on_tick(now_us());
  }
}

}  // namespace lynx::sim
