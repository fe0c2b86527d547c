#include <atomic>
#include <thread>

#include "server/kv_receiver.h"
#include "server/kv_sender.h"
#include "tests/catch.h"
#include "tests/sim/thread_link.h"

namespace lynx::sim {
namespace {

using namespace lynx::transport;

constexpr std::uint32_t kUnit = 3000;
constexpr int kTickets = 60;
constexpr int kThreads = 3;

// Waits for what another thread counts; CTest's time limit ends a test in which it does not come.
void wait_for(const std::atomic<int>& counter, int value) {
  while (counter.load() < value) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

struct SenderCounts final : server::KvSenderEvents {
  std::atomic<int> connected{0}, delivered{0}, closed{0};
  void on_connected(server::SessionId, const Status&) override { ++connected; }
  void on_session_lost(server::SessionId, const Status&) override {}
  void on_delivered(const TicketId&) override { ++delivered; }
  void on_closed(const TicketId&) override { ++closed; }
};

struct ReceiverCounts final : server::KvReceiverEvents {
  std::atomic<int> connected{0}, complete{0}, failed{0}, retired{0};
  void on_connected(server::SessionId, const Status&) override { ++connected; }
  void on_session_lost(server::SessionId, const Status&) override {}
  void on_complete(const TicketId&, const TransferBytes&) override { ++complete; }
  void on_failed(const TicketId&, const Status&) override { ++failed; }
  void on_retired(const TicketId&) override { ++retired; }
};

struct CountingSource final : server::UnitSource {
  std::uint64_t request = 0;
  explicit CountingSource(std::uint64_t of) : request(of) {}
  Coded read(const UnitKey& unit, std::span<std::byte> out) override {
    std::fill(out.begin(), out.end(), static_cast<std::byte>(request + unit.block));
    return {Plane::kBf16, kUnit};
  }
};

struct CheckingSink final : server::UnitSink {
  std::uint64_t request = 0;
  explicit CheckingSink(std::uint64_t of) : request(of) {}
  Status place(const UnitKey& unit, std::span<const std::byte> bytes) override {
    for (std::byte byte : bytes) {
      if (byte != static_cast<std::byte>(request + unit.block)) return {Code::kDataLoss, "wrong byte"};
    }
    return {};
  }
};

TEST_CASE("Commands from several threads, while two progress threads exchange units and others look at the numbers") {
  ThreadSwitch network;
  ThreadLink sender_link(&network, "prefill");
  ThreadLink receiver_link(&network, "decode");
  SenderCounts sent;
  ReceiverCounts received;
  server::KvSenderOptions sending;
  sending.unit_bytes_max = kUnit;
  sending.chunk_bytes = 1024;
  sending.high_window_bytes = 64 << 10;
  sending.pool_bytes = 256 << 10;
  server::KvReceiverOptions receiving;
  receiving.unit_bytes_max = kUnit;
  receiving.pool_bytes = 256 << 10;
  auto sender = std::move(*server::KvSender::create(sending, &sender_link, &sent));
  auto receiver = std::move(*server::KvReceiver::create(receiving, &receiver_link, &received));
  sender_link.start(sender.get());
  receiver_link.start(receiver.get());
  sender->connect(1, receiver_link.address());
  receiver->connect(1, sender_link.address());
  wait_for(sent.connected, 1);
  wait_for(received.connected, 1);

  std::atomic<int> wrong{0};
  auto serve = [&](int from) {
    for (int ticket = from; ticket < kTickets; ticket += kThreads) {
      const TicketId id{1, static_cast<std::uint64_t>(ticket)};
      receiver->expect(1, {id, {}, 2, 4, {Plane::kBf16}, kUnit}, std::make_shared<CheckingSink>(id.request));
      sender->open({1, id, {}, kUnit, 0}, std::make_shared<CountingSource>(id.request));
      const Lane lane = ticket % 2 == 0 ? Lane::kHigh : Lane::kBackground;
      for (std::uint32_t block = 0; block < 4; ++block) {
        std::vector<UnitKey> units;
        for (std::uint16_t layer = 0; layer < 2; ++layer) {
          for (Part part : {Part::kK, Part::kV}) units.push_back({layer, part, Plane::kBf16, block});
        }
        sender->add_units(id, lane, units);
      }
      sender->finish(id);
      if (ticket % 5 == 0) {  // May be over already.
        receiver->retire(id);
        sender->abort(id);
      }
      // Catch2 counts in one thread only.
      if (sender->stats().live_tickets > kTickets || receiver->link_info(1).transport != "queue") ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(serve, i);
  for (std::thread& thread : threads) thread.join();
  wait_for(received.retired, kTickets / 5);
  while (sent.delivered + sent.closed < kTickets) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  while (receiver->stats().live_tickets != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  sender_link.stop();
  receiver_link.stop();
  CHECK(sent.delivered >= kTickets * 4 / 5);
  CHECK(received.complete >= kTickets * 4 / 5);
  CHECK(received.failed == 0);
  CHECK(wrong == 0);
  CHECK(sender->stats().live_tickets == 0);
  CHECK(receiver->stats().slots_in_use == 0);
}

}  // namespace
}  // namespace lynx::sim
