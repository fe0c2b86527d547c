#include "tests/transport/ucx_node.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <random>

#include "tests/catch.h"

namespace lynx::transport {
namespace {

constexpr std::chrono::minutes kHangGuard{3};

}  // namespace

UcxNode::UcxNode(const UcxLinkOptions& options, bool start) {
  Result<std::unique_ptr<Link>> link = create_ucx_link(options);
  INFO(link.status().to_string());
  REQUIRE(link.ok());
  link_ = std::move(link).value();
  if (start) this->start();
}

UcxNode::~UcxNode() {
  link_->stop();
}

void UcxNode::run(const std::function<void(Link&)>& command) {
  std::unique_lock lock(mutex_);
  bool done = false;
  commands_.push_back([&](Link& link) {
    command(link);
    const std::lock_guard inner(mutex_);
    done = true;
    changed_.notify_all();
  });
  link_->wake();
  REQUIRE(changed_.wait_for(lock, kHangGuard, [&] { return done; }));
}

Result<PeerId> UcxNode::try_connect(const LinkAddress& address) {
  Result<PeerId> peer = internal_error("not run");
  run([&](Link& link) { peer = link.connect(address); });
  return peer;
}

PeerId UcxNode::connect(const LinkAddress& address) {
  Result<PeerId> peer = try_connect(address);
  INFO(peer.status().to_string());
  REQUIRE(peer.ok());
  return *peer;
}

void UcxNode::disconnect(PeerId peer) {
  run([&](Link& link) { link.disconnect(peer); });
}

LinkInfo UcxNode::info(PeerId peer) {
  LinkInfo info;
  run([&](Link& link) { info = link.info(peer); });
  return info;
}

void UcxNode::send(PeerId peer, Lane lane, const WireBytes& header, std::vector<std::byte> payload, std::uint64_t token) {
  run([&](Link& link) { link.send(peer, lane, header, payloads_.emplace_back(std::move(payload)), token); });
}

void UcxNode::send_all(PeerId peer, const std::vector<UcxMessage>& messages, std::uint64_t first_token) {
  run([&](Link& link) {
    for (const UcxMessage& message : messages) {
      link.send(peer, message.lane, wire_bytes(message), payloads_.emplace_back(message.payload), first_token++);
    }
  });
}

bool UcxNode::comes_within(std::chrono::seconds time, const std::function<bool(const UcxRecord&)>& condition) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return condition(record_); });
}

void UcxNode::wait_until(const std::string& what, const std::function<bool(const UcxRecord&)>& condition) {
  std::unique_lock lock(mutex_);
  const bool came = changed_.wait_for(lock, kHangGuard, [&] { return condition(record_); });
  INFO("waiting for: " << what);
  REQUIRE(came);
}

UcxRecord UcxNode::record() const {
  const std::lock_guard lock(mutex_);
  return record_;
}

std::int64_t UcxNode::cpu_us() {
  timespec time{};
  run([&](Link&) { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time); });
  return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

void UcxNode::ask_for_tick(std::int64_t at_us) {
  {
    const std::lock_guard lock(mutex_);
    next_tick_us_ = at_us;
  }
  link_->wake();
}

void UcxNode::on_message(Lane lane, std::span<const std::byte> header, std::span<const std::byte> payload) {
  const std::lock_guard lock(mutex_);
  record_.messages.push_back({lane, {header.begin(), header.end()}, {payload.begin(), payload.end()}});
  changed_.notify_all();
}

void UcxNode::on_sent(std::uint64_t token, const Status& status) {
  const std::lock_guard lock(mutex_);
  record_.sent[token].push_back(status);
  changed_.notify_all();
}

void UcxNode::on_peer_lost(PeerId peer, const Status& why) {
  const std::lock_guard lock(mutex_);
  CHECK(why.code() == Code::kUnavailable);
  record_.lost.push_back(peer);
  changed_.notify_all();
}

std::int64_t UcxNode::on_tick(std::int64_t now_us) {
  std::deque<std::function<void(Link&)>> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) command(*link_);
  const std::lock_guard lock(mutex_);
  if (now_us >= next_tick_us_) {
    ++record_.ticks;
    next_tick_us_ = std::numeric_limits<std::int64_t>::max();
    changed_.notify_all();
  }
  return next_tick_us_;
}

UcxLinkOptions tcp_options() {
  return {"lo", "tcp"};
}

UcxLinkOptions shm_options() {
  return {"", "shm"};
}

UcxMessage make_message(Lane lane, std::uint32_t sequence, std::uint32_t seed, std::size_t payload_bytes) {
  std::mt19937 random(seed ^ (sequence * 2 + static_cast<std::uint32_t>(lane)) * 2654435761U);
  UcxMessage message{lane, std::vector<std::byte>(kWireHeaderBytes), std::vector<std::byte>(payload_bytes)};
  for (auto* bytes : {&message.header, &message.payload}) {
    for (std::size_t i = 0; i < bytes->size(); i += 4) {
      const auto word = static_cast<std::uint32_t>(random());
      std::memcpy(bytes->data() + i, &word, std::min<std::size_t>(4, bytes->size() - i));
    }
  }
  return message;
}

WireBytes wire_bytes(const UcxMessage& message) {
  WireBytes bytes{};
  std::copy(message.header.begin(), message.header.end(), bytes.begin());
  return bytes;
}

}  // namespace lynx::transport
