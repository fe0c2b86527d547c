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
          sender_.add_unit({layer, part, Plane::kLossless, block});
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
      if (network_.empty() && sender_.ready_bytes() == 0 && !receiver_.has_acks(Lane::kHigh) && !sender_.unit_to_prepare())
        ask_for_missing();
    }
    return sender_.complete() && receiver_.complete() && all_written_once();
  }

 private:
  static constexpr std::uint16_t kLayers = 3;
  static constexpr std::uint32_t kBlocks = 4;

  // Codes the next unit when it is its turn: its size and plane turn out now.
  void prepare() {
    auto unit = sender_.unit_to_prepare();
    if (!unit) return;
    CHECK(sender_.ready_bytes() == 0);
    if (draw() % 2 == 0) unit->plane = Plane::kBf16;
    PreparedUnit coded{unit->plane, 1 + draw() % 5000, static_cast<std::uint32_t>(bytes_left_.size())};
    sender_.prepared(coded);
    bytes_left_[*unit] = std::vector<bool>(coded.bytes, false);
    memory_of_[*unit] = coded.memory;
  }

  void send() {
    prepare();
    const std::uint32_t ready = sender_.ready_bytes();
    auto chunk = sender_.next_chunk(1 + draw() % 2000, ++now_us_);
    CHECK(chunk.has_value() == (ready > 0));
    if (!chunk) return;
    CHECK(chunk->length <= ready);
    CHECK(chunk->memory == memory_of_.at(chunk->unit));
    WireHeader header = header_of(*chunk, sender_epoch_);
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
    const std::uint32_t before = receiver_.epoch();
    Verdict verdict = receiver_.judge(header);
    CHECK((verdict == Verdict::kPlace || verdict == Verdict::kDuplicate || verdict == Verdict::kStaleEpoch));
    CHECK((verdict == Verdict::kStaleEpoch) == (header.epoch < before));
    CHECK(receiver_.epoch() == std::max(before, header.epoch));
    if (verdict != Verdict::kPlace) return;
    if (draw() % 25 == 0) {  // Damaged payload: its CRC fails before placed().
      if (header.epoch == sender_epoch_) sender_.on_rejected(header.sequence);
      return;
    }
    receiver_.placed(header);
    auto& written = bytes_left_.at(header.unit);
    for (std::uint32_t i = header.offset; i < header.offset + header.length; ++i) written[i] = true;
  }

  void acknowledge() {
    std::vector<std::uint32_t> done;
    for (SequenceRange range : receiver_.take_acks(Lane::kHigh, 1 + draw() % 8)) {
      if (draw() % 30 == 0 || receiver_.epoch() != sender_epoch_) continue;  // The acknowledgement is lost, or of an old epoch.
      sender_.on_acked(range, now_us_, &done);
    }
    for (std::uint32_t memory : done) CHECK(done_.insert(memory).second);
  }

  // The sender begins a new epoch; the receiver follows with the first chunk of it.
  void restart() {
    ++sender_epoch_;
    sender_.restart();
    CHECK(sender_.in_flight_bytes() == 0);
  }

  void ask_for_missing() {
    for (const UnitKey& unit : receiver_.missing(3)) sender_.on_missing(unit, now_us_ + 1);
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
    return receiver_.bytes_placed().all() == total && done_.size() == bytes_left_.size() && sender_.begun_bytes() == 0 &&
           sender_.acked_bytes() == total && sender_.in_flight_bytes() == 0;
  }

  std::uint32_t draw() { return static_cast<std::uint32_t>(random_()); }

  std::mt19937 random_;
  TransferSender sender_;
  TransferReceiver receiver_;
  std::deque<WireHeader> network_;
  std::map<UnitKey, std::vector<bool>> bytes_left_;
  std::map<UnitKey, std::uint32_t> memory_of_;
  std::set<std::uint32_t> done_;
  std::uint32_t sender_epoch_ = 0;
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
  Chunk chunk{{1, Part::kV, Plane::kBf16, 2}, 100, 0, 0, 50, 0, false};
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
  CHECK(judge([](WireHeader& h) { h.offset = 60; }) == Verdict::kMalformed);
  CHECK(receiver.judge(good) == Verdict::kPlace);
  CHECK_FALSE(receiver.placed(good));
  CHECK(receiver.judge(good) == Verdict::kDuplicate);
  // The first chunk fixed the unit's size and plane.
  CHECK(judge([](WireHeader& h) { h.unit_bytes = 99; }) == Verdict::kMalformed);
  CHECK(judge([](WireHeader& h) { h.unit.plane = Plane::kLossless; }) == Verdict::kMalformed);
  CHECK(receiver.missing(100).size() == 12);
}

TEST_CASE("Only a chunk that proves itself and fits takes the receiver to a higher epoch, and none takes it back") {
  TransferReceiver receiver(expectation(2, 3));
  Chunk chunk{{1, Part::kV, Plane::kBf16, 2}, 100, 0, 0, 50, 0, false};
  WireHeader old = header_of(chunk, 0);
  CHECK(receiver.judge(old) == Verdict::kPlace);
  receiver.placed(old);
  WireHeader forged = header_of(chunk, 9);
  forged.secret[0] = 77;
  CHECK(receiver.judge(forged) == Verdict::kForeign);
  WireHeader malformed = header_of(chunk, 9);
  malformed.unit.layer = 2;
  CHECK(receiver.judge(malformed) == Verdict::kMalformed);
  CHECK(receiver.epoch() == 0);
  CHECK(receiver.has_acks(Lane::kHigh));
  chunk.offset = 50;
  CHECK(receiver.judge(header_of(chunk, 4)) == Verdict::kPlace);
  CHECK(receiver.epoch() == 4);
  CHECK_FALSE(receiver.has_acks(Lane::kHigh));  // They named chunks of an earlier epoch.
  CHECK(receiver.judge(old) == Verdict::kStaleEpoch);
  CHECK(receiver.judge(header_of(chunk, 3)) == Verdict::kStaleEpoch);
  CHECK(receiver.epoch() == 4);
}

TEST_CASE("What is missing is named round and round") {
  TransferReceiver receiver(expectation(1, 3));
  std::vector<UnitKey> seen;
  for (int call = 0; call < 3; ++call) {
    for (const UnitKey& unit : receiver.missing(4)) seen.push_back(unit);
  }
  REQUIRE(seen.size() == 12);
  CHECK(std::set<UnitKey>(seen.begin(), seen.begin() + 6).size() == 6);
  CHECK(std::equal(seen.begin(), seen.begin() + 6, seen.begin() + 6));
}

TEST_CASE("Acknowledgements are ranges and the watchdog's clock starts with the first chunk in flight") {
  TransferSender sender;
  sender.add_unit({0, Part::kK, Plane::kLossless, 0});
  sender.add_unit({0, Part::kK, Plane::kBf16, 0});  // The same one.
  sender.close();
  CHECK_FALSE(sender.next_chunk(100, 999).has_value());
  REQUIRE(sender.unit_to_prepare().has_value());
  sender.prepared({Plane::kBf16, 300, 8});
  for (std::uint32_t expected : {0U, 1U, 2U}) CHECK(sender.next_chunk(100, 1000 + expected)->sequence == expected);
  CHECK_FALSE(sender.next_chunk(100, 2000).has_value());
  CHECK(sender.last_progress_us() == 1000);
  std::vector<std::uint32_t> done;
  sender.on_acked({1, 9}, 5000, &done);
  CHECK(done.empty());
  CHECK(sender.in_flight_bytes() == 100);
  CHECK(sender.last_progress_us() == 5000);
  sender.on_acked({0, 0}, 6000, &done);
  CHECK(done == std::vector<std::uint32_t>{8});
  CHECK(sender.complete());
}

TEST_CASE("Asked for a unit, the sender sends again what left long ago; given up, it names the memory still held") {
  TransferSender sender;
  for (std::uint32_t block : {0U, 1U, 2U}) sender.add_unit({0, Part::kK, Plane::kBf16, block});
  for (std::uint32_t memory : {5U, 6U}) {
    sender.prepared({Plane::kBf16, 200, memory});
    CHECK(sender.next_chunk(100, 1000 + memory)->memory == memory);
    CHECK(sender.next_chunk(100, 2000)->memory == memory);
  }
  sender.on_missing({0, Part::kK, Plane::kLossless, 0}, 1500);
  CHECK(sender.in_flight_bytes() == 300);
  CHECK_FALSE(sender.unit_to_prepare().has_value());  // What was lost goes first.
  CHECK(sender.next_chunk(100, 3000)->resent);
  sender.on_missing({0, Part::kV, Plane::kBf16, 0}, 9000);
  sender.on_missing({0, Part::kK, Plane::kBf16, 2}, 9000);
  CHECK(sender.in_flight_bytes() == 400);
  std::vector<std::uint32_t> done;
  sender.on_acked({2, 3}, 4000, &done);
  CHECK(done == std::vector<std::uint32_t>{6});
  CHECK(sender.units_to_code() == 1);
  CHECK(sender.abandon() == std::vector<std::uint32_t>{5});
  CHECK_FALSE(sender.complete());
  sender.close();
  CHECK(sender.complete());
}

TEST_CASE("A sender knows how old its oldest unit is, and what acknowledgements told since it was asked") {
  TransferSender sender;
  CHECK_FALSE(sender.oldest_us().has_value());
  CHECK_FALSE(sender.begun());
  sender.add_unit({0, Part::kK, Plane::kBf16, 0}, 100);
  sender.add_unit({0, Part::kV, Plane::kBf16, 0}, 200);
  sender.add_unit({0, Part::kV, Plane::kBf16, 0}, 300);  // Again: ignored.
  CHECK(sender.oldest_us() == 100);
  for (std::int64_t now_us : {1000, 2000}) {
    sender.prepared({Plane::kBf16, 50, 0});
    CHECK(sender.next_chunk(30, now_us).has_value());
    CHECK(sender.next_chunk(30, now_us + 10).has_value());
  }
  CHECK(sender.begun());
  std::vector<std::uint32_t> done;
  sender.on_acked({2, 3}, 3000, &done);  // The second unit; the first one is still the oldest.
  CHECK(sender.oldest_us() == 100);
  AckedBytes acked = sender.take_acked();
  CHECK(acked.bytes == 50);
  CHECK(acked.newest_sent_us == 2010);
  CHECK(sender.take_acked().bytes == 0);
  sender.on_acked({0, 0}, 3000, &done);
  CHECK(sender.oldest_us() == 100);
  sender.on_acked({1, 3}, 3000, &done);  // What is acknowledged already says nothing new.
  CHECK_FALSE(sender.oldest_us().has_value());
  acked = sender.take_acked();
  CHECK(acked.bytes == 50);
  CHECK(acked.newest_sent_us == 1010);
  sender.add_unit({1, Part::kK, Plane::kBf16, 0}, 400);
  CHECK(sender.oldest_us() == 400);
  sender.abandon();
  CHECK_FALSE(sender.oldest_us().has_value());
  CHECK_FALSE(sender.begun());
}

}  // namespace
}  // namespace lynx::transport
