// Sender and receiver of one ticket over a bad network: seeded loss, duplication, reordering, damage and restarts.

#include <deque>
#include <map>
#include <random>
#include <set>

#include "tests/catch.h"
#include "transport/transfer_receiver.h"
#include "transport/transfer_sender.h"

namespace lynx::transport {
namespace {

constexpr TicketId kTicket{77, 5};
constexpr TicketSecret kSecret{1, 2, 3};

TransferExpectation expectation(int layers, int blocks) {
  return {kTicket, kSecret, layers, blocks, {Plane::kBf16, Plane::kLossless}, 1 << 16};
}

WireHeader header_of(const Chunk& chunk, std::uint32_t epoch) {
  WireHeader header;
  header.ticket = kTicket;
  header.secret = kSecret;
  header.epoch = epoch;
  header.sequence = chunk.sequence;
  header.unit = chunk.unit;
  header.unit_bytes = chunk.unit_bytes;
  header.offset = chunk.offset;
  header.length = chunk.length;
  return header;
}

class Simulation {
 public:
  explicit Simulation(std::uint32_t seed) : random_(seed), receiver_(expectation(kLayers, kBlocks)) {
    for (std::uint16_t layer = 0; layer < kLayers; ++layer) {
      for (std::uint32_t block = 0; block < kBlocks; ++block) {
        for (Part part : {Part::kK, Part::kV}) {
          Plane plane = draw() % 2 == 0 ? Plane::kBf16 : Plane::kLossless;
          UnitKey key{layer, part, plane, block};
          std::uint32_t bytes = 1 + draw() % 5000;
          sender_.add_unit(key, bytes);
          bytes_left_[key] = std::vector<bool>(bytes, false);
        }
      }
    }
    sender_.close();
  }

  // Runs until both sides agree that all is there; false if they do not within a bound.
  bool run() {
    for (int step = 0; step < 200000 && !sender_.complete(); ++step) {
      if (draw() % 3 != 0) send();
      if (draw() % 2 == 0) deliver();
      if (draw() % 4 == 0) acknowledge();
      if (draw() % 997 == 0) restart();
      if (network_.empty() && !sender_.has_pending() && !receiver_.has_acks()) ask_for_missing();
    }
    return sender_.complete() && receiver_.complete() && all_written_once();
  }

 private:
  static constexpr std::uint16_t kLayers = 3;
  static constexpr std::uint32_t kBlocks = 4;

  void send() {
    auto chunk = sender_.next_chunk(1 + draw() % 2000, ++now_us_);
    if (!chunk) return;
    WireHeader header = header_of(*chunk, epoch_);
    unsigned fate = draw() % 20;
    if (fate == 0) return;  // Lost.
    network_.push_back(header);
    if (fate == 1) network_.push_back(header);  // Twice.
  }

  void deliver() {
    if (network_.empty()) return;
    auto it = network_.begin() + static_cast<std::ptrdiff_t>(draw() % network_.size());
    WireHeader header = *it;
    network_.erase(it);
    if (draw() % 25 == 0) {  // Damaged payload: its CRC fails before placed().
      if (header.epoch == epoch_ && receiver_.judge(header) == Verdict::kPlace) sender_.on_rejected(header.sequence);
      return;
    }
    Verdict verdict = receiver_.judge(header);
    CHECK((verdict == Verdict::kPlace || verdict == Verdict::kDuplicate || verdict == Verdict::kStaleEpoch));
    CHECK((verdict == Verdict::kStaleEpoch) == (header.epoch < epoch_));
    if (verdict != Verdict::kPlace) return;
    receiver_.placed(header);
    auto& written = bytes_left_.at(header.unit);
    for (std::uint32_t i = header.offset; i < header.offset + header.length; ++i) written[i] = true;
  }

  void acknowledge() {
    std::vector<UnitKey> done;
    for (SequenceRange range : receiver_.take_acks(Lane::kHigh, 1 + draw() % 8)) {
      if (draw() % 30 == 0) continue;  // The acknowledgement itself is lost.
      sender_.on_acked(range, now_us_, &done);
    }
    for (const UnitKey& unit : done) CHECK(done_.insert(unit).second);
  }

  void restart() {
    ++epoch_;
    sender_.restart();
    receiver_.begin_epoch(epoch_);
  }

  void ask_for_missing() {
    for (const UnitKey& unit : receiver_.missing(3)) sender_.on_missing(unit);
    // All placed, yet the sender does not know: its acknowledgements were lost.
    if (receiver_.complete()) restart();
  }

  bool all_written_once() const {
    std::uint64_t total = 0;
    for (const auto& [unit, written] : bytes_left_) {
      total += written.size();
      for (bool byte : written) {
        if (!byte) return false;
      }
    }
    return receiver_.bytes_placed() == total && done_.size() == bytes_left_.size() && sender_.remaining_bytes() == 0 &&
           sender_.in_flight_bytes() == 0;
  }

  std::uint32_t draw() { return static_cast<std::uint32_t>(random_()); }

  std::mt19937 random_;
  TransferSender sender_;
  TransferReceiver receiver_;
  std::deque<WireHeader> network_;
  std::map<UnitKey, std::vector<bool>> bytes_left_;
  std::set<UnitKey> done_;
  std::uint32_t epoch_ = 0;
  std::int64_t now_us_ = 0;
};

TEST_CASE("Every byte arrives once, whatever the network does") {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    CHECK(Simulation(seed).run());
  }
}

TEST_CASE("What a ticket does not expect is not placed") {
  TransferReceiver receiver(expectation(2, 3));
  Chunk chunk{{1, Part::kV, Plane::kBf16, 2}, 100, 0, 50, 0, false};
  const WireHeader good = header_of(chunk, 0);
  auto judge = [&](auto change) {
    WireHeader header = good;
    change(header);
    return receiver.judge(header);
  };
  CHECK(judge([](WireHeader& h) { h.ticket.request = 6; }) == Verdict::kForeign);
  CHECK(judge([](WireHeader& h) { h.ticket.boot = 1; }) == Verdict::kForeign);
  CHECK(judge([](WireHeader& h) { h.secret[15] = 1; }) == Verdict::kForeign);
  CHECK(judge([](WireHeader& h) { h.unit.layer = 2; }) == Verdict::kMalformed);
  CHECK(judge([](WireHeader& h) { h.unit.block = 3; }) == Verdict::kMalformed);
  CHECK(judge([](WireHeader& h) { h.unit_bytes = (1 << 16) + 1; }) == Verdict::kMalformed);
  CHECK(judge([](WireHeader& h) { h.epoch = 1; }) == Verdict::kMalformed);
  CHECK(judge([](WireHeader& h) { h.offset = 60; }) == Verdict::kMalformed);
  CHECK(receiver.judge(good) == Verdict::kPlace);
  CHECK_FALSE(receiver.placed(good));
  CHECK(receiver.judge(good) == Verdict::kDuplicate);
  // The first chunk fixed the unit's size and plane.
  CHECK(judge([](WireHeader& h) { h.unit_bytes = 99; }) == Verdict::kMalformed);
  CHECK(judge([](WireHeader& h) { h.unit.plane = Plane::kLossless; }) == Verdict::kMalformed);
  receiver.begin_epoch(4);
  CHECK(receiver.judge(good) == Verdict::kStaleEpoch);
  CHECK(receiver.missing(100).size() == 12);
}

TEST_CASE("Acknowledgements are ranges and the watchdog's clock starts with the first chunk in flight") {
  TransferSender sender;
  sender.add_unit({0, Part::kK, Plane::kBf16, 0}, 300);
  sender.close();
  for (std::uint32_t expected : {0U, 1U, 2U}) CHECK(sender.next_chunk(100, 1000 + expected)->sequence == expected);
  CHECK_FALSE(sender.next_chunk(100, 2000).has_value());
  CHECK(sender.last_progress_us() == 1000);
  std::vector<UnitKey> done;
  sender.on_acked({1, 9}, 5000, &done);
  CHECK(done.empty());
  CHECK(sender.in_flight_bytes() == 100);
  CHECK(sender.last_progress_us() == 5000);
  sender.on_acked({0, 0}, 6000, &done);
  CHECK(done.size() == 1);
  CHECK(sender.complete());
}

}  // namespace
}  // namespace lynx::transport
