// Two links in one process, over TCP (lo) and over shared memory.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/catch.h"
#include "tests/transport/ucx_node.h"

namespace lynx::transport {
namespace {

constexpr std::uint32_t kSeed = 20260701;

std::vector<UcxMessage> mixed_messages(std::uint32_t count, std::uint32_t seed) {
  constexpr std::size_t kSizes[] = {0, 1, 95, 96, 4095, 8192, 24576, 65535, 65536, 300000};
  std::vector<UcxMessage> messages;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto lane = static_cast<Lane>((i / 3) % 2);
    const std::size_t bytes = i % 2 == 0 ? kSizes[i / 2 % std::size(kSizes)] : (i * 2654435761U) % 65537;
    messages.push_back(make_message(lane, i, seed, bytes));
  }
  return messages;
}

std::vector<const UcxMessage*> of_lane(const std::vector<UcxMessage>& messages, Lane lane) {
  std::vector<const UcxMessage*> found;
  for (const UcxMessage& message : messages) {
    if (message.lane == lane) found.push_back(&message);
  }
  return found;
}

void check_same(const std::vector<UcxMessage>& sent, const std::vector<UcxMessage>& received) {
  REQUIRE(received.size() == sent.size());
  for (Lane lane : {Lane::kHigh, Lane::kBackground}) {
    const auto expected = of_lane(sent, lane);
    const auto found = of_lane(received, lane);
    REQUIRE(found.size() == expected.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i]->header != expected[i]->header || found[i]->payload != expected[i]->payload) ++wrong;
    }
    INFO("lane " << static_cast<int>(lane) << ", seed " << kSeed);
    CHECK(wrong == 0);
  }
}

void check_once(const UcxRecord& record, std::uint64_t first, std::uint64_t count, const std::set<Code>& allowed) {
  CHECK(record.sent.size() == first + count - 1);
  for (std::uint64_t token = first; token < first + count; ++token) {
    auto found = record.sent.find(token);
    INFO("token " << token);
    REQUIRE(found != record.sent.end());
    REQUIRE(found->second.size() == 1);
    REQUIRE(allowed.count(found->second[0].code()) == 1);
  }
}

std::function<bool(const UcxRecord&)> has_messages(std::size_t count) {
  return [count](const UcxRecord& record) { return record.messages.size() >= count; };
}

TEST_CASE("messages of both lanes arrive intact and in order, both ways at once", "[ucx]") {
  const bool shared = GENERATE(false, true);
  const UcxLinkOptions options = shared ? shm_options() : tcp_options();
  UcxNode a(options);
  UcxNode b(options);
  const PeerId to_b = a.connect(b.link().address());
  const PeerId to_a = b.connect(a.link().address());
  const auto from_a = mixed_messages(600, kSeed);
  const auto from_b = mixed_messages(200, kSeed + 1);
  a.send_all(to_b, from_a, 1);
  b.send_all(to_a, from_b, 1);
  b.wait_until("a's messages", has_messages(from_a.size()));
  a.wait_until("b's messages", has_messages(from_b.size()));
  check_same(from_a, b.record().messages);
  check_same(from_b, a.record().messages);
  a.wait_until("all sent", [&](const UcxRecord& record) { return record.sent.size() == from_a.size(); });
  check_once(a.record(), 1, from_a.size(), {Code::kOk});

  const LinkInfo info = a.info(to_b);
  CHECK(info.transport == (shared ? "shm" : "tcp"));
  CHECK(info.device == (shared ? "memory" : "lo"));
  CHECK(info.library == "UCX " + a.link().library_version());
  CHECK(a.record().lost.empty());
}

TEST_CASE("a peer that only receives need not connect", "[ucx]") {
  UcxNode a(tcp_options());
  UcxNode b(tcp_options());
  const PeerId to_b = a.connect(b.link().address());
  a.send_all(to_b, mixed_messages(50, kSeed), 1);
  b.wait_until("messages", has_messages(50));
}

TEST_CASE("memory of the link carries payloads", "[ucx]") {
  UcxNode a(tcp_options(), false);
  UcxNode b(tcp_options());
  CHECK(a.link().allocate(0).status().code() == Code::kInvalidArgument);
  const Result<std::span<std::byte>> absurd = a.link().allocate(std::size_t{1} << 50);
  CHECK(absurd.status().code() == Code::kResourceExhausted);
  CHECK(absurd.status().message().find("1048576.00 GiB") != std::string::npos);
  Result<std::span<std::byte>> memory = a.link().allocate(3 << 20);
  REQUIRE(memory.ok());
  REQUIRE(memory->size() == 3 << 20);
  for (std::size_t i = 0; i < memory->size(); ++i) (*memory)[i] = static_cast<std::byte>(i * 7 >> 3);
  a.start();
  const PeerId to_b = a.connect(b.link().address());
  const std::span<const std::byte> payload = memory->subspan(123457, 65536);
  a.run([&](Link& link) { link.send(to_b, Lane::kHigh, WireBytes{}, payload, 1); });
  b.wait_until("the message", has_messages(1));
  CHECK(b.record().messages[0].payload == std::vector<std::byte>(payload.begin(), payload.end()));
}

TEST_CASE("addresses that no Lynx node made are refused, and the link goes on", "[ucx]") {
  UcxNode a(tcp_options());
  UcxNode b(tcp_options());
  const LinkAddress good = b.link().address();
  CHECK(a.try_connect({}).status().code() == Code::kInvalidArgument);
  CHECK(a.try_connect({{good.lanes[0]}}).status().code() == Code::kInvalidArgument);
  CHECK(a.try_connect({{good.lanes[1], good.lanes[0]}}).status().code() == Code::kInvalidArgument);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    LinkAddress bad = good;
    std::string& lane = bad.lanes[random() % 2];
    if (round % 3 == 0) {
      lane.assign(random() % 600, '\0');
      for (char& byte : lane) byte = static_cast<char>(random());
    } else {
      lane[random() % lane.size()] ^= static_cast<char>(1 + random() % 255);
    }
    INFO("seed " << kSeed << ", round " << round);
    REQUIRE(a.try_connect(bad).status().code() == Code::kInvalidArgument);
  }
  a.send_all(a.connect(good), mixed_messages(10, kSeed), 1);
  b.wait_until("messages", has_messages(10));
}

TEST_CASE("an address that no common transport reaches is refused with UCX's reason", "[ucx]") {
  UcxNode a(tcp_options());
  UcxNode b(shm_options());
  const Result<PeerId> peer = a.try_connect(b.link().address());
  REQUIRE_FALSE(peer.ok());
  CHECK(peer.status().code() == Code::kUnavailable);
}

TEST_CASE("disconnecting ends every send, and connecting again works", "[ucx]") {
  const UcxLinkOptions options = GENERATE(0, 1) == 0 ? tcp_options() : shm_options();
  UcxNode a(options);
  UcxNode b(options);
  constexpr std::uint64_t kCount = 400;
  std::uint64_t token = 1;
  for (int round = 0; round < 4; ++round) {
    const PeerId to_b = a.connect(b.link().address());
    const std::vector<UcxMessage> messages(kCount, make_message(Lane::kBackground, 1, kSeed, 65536));
    a.send_all(to_b, messages, token);
    a.disconnect(to_b);
    a.send(to_b, Lane::kHigh, WireBytes{}, {}, token + kCount);
    token += kCount + 1;
    a.wait_until("every send to end", [&](const UcxRecord& record) { return record.sent.size() == token - 1; });
    CHECK(a.record().sent[token - 1][0].code() == Code::kUnavailable);
  }
  check_once(a.record(), 1, token - 1, {Code::kOk, Code::kCancelled, Code::kUnavailable});
  CHECK(a.record().lost.empty());

  const std::size_t before = b.record().messages.size();
  a.send_all(a.connect(b.link().address()), mixed_messages(20, kSeed), token);
  b.wait_until("messages after connecting again", has_messages(before + 20));
}

TEST_CASE("stopping with sends under way ends them all, once, and is heard of no more", "[ucx]") {
  const UcxLinkOptions options = GENERATE(0, 1) == 0 ? tcp_options() : shm_options();
  UcxNode a(options);
  UcxNode b(options);
  constexpr std::uint64_t kCount = 500;
  a.send_all(a.connect(b.link().address()), std::vector<UcxMessage>(kCount, make_message(Lane::kHigh, 1, kSeed, 65536)), 1);
  a.stop();
  const UcxRecord record = a.record();
  check_once(record, 1, kCount, {Code::kOk, Code::kCancelled});
  a.stop();
  a.link().wake();
  CHECK(a.record().sent.size() == record.sent.size());
}

TEST_CASE("a link that was never started ends quietly", "[ucx]") {
  UcxNode node(tcp_options(), false);
  node.stop();
}

TEST_CASE("on_tick comes when it was asked for, not before", "[ucx]") {
  UcxNode node(tcp_options());
  for (int i = 1; i <= 3; ++i) {
    node.ask_for_tick(node.link().now_us() + 20'000);  // The node counts a tick only at or after that time.
    node.wait_until("a tick", [i](const UcxRecord& record) { return record.ticks >= i; });
  }
  node.ask_for_tick(0);
  node.wait_until("a tick that is due already", [](const UcxRecord& record) { return record.ticks == 4; });
}

TEST_CASE("an idle link uses no processor time", "[ucx]") {
  UcxNode a(tcp_options());
  UcxNode b(tcp_options());
  a.send_all(a.connect(b.link().address()), mixed_messages(10, kSeed), 1);
  b.wait_until("messages", has_messages(10));
  const std::int64_t before_us = a.cpu_us() + b.cpu_us();
  sleep(2);
  // Two threads that polled would take up to 4 s; these wake up for keepalives only.
  CHECK(a.cpu_us() + b.cpu_us() - before_us < 200'000);
}

TEST_CASE("UCX got Lynx's settings: a silent peer is given up after three seconds", "[ucx]") {
  UcxNode a(tcp_options());
  UcxNode b(tcp_options());
  a.send_all(a.connect(b.link().address()), mixed_messages(10, kSeed), 1);
  b.wait_until("messages", has_messages(10));
  int connected = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    sockaddr_storage peer{};
    socklen_t peer_bytes = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0 || peer.ss_family != AF_INET) continue;
    unsigned timeout_ms = 0;
    socklen_t bytes = sizeof timeout_ms;
    REQUIRE(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &bytes) == 0);
    CHECK((timeout_ms > 2900 && timeout_ms <= 3000));  // The kernel rounds to its ticks.
    ++connected;
  }
  CHECK(connected >= 2 * kLanes);
}

}  // namespace
}  // namespace lynx::transport
