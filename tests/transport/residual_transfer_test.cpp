// A ticket whose units come in two steps: Anchors on lane 0, their Residuals on lane 1.

#include <algorithm>
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
constexpr int kParts = 2;

TransferExpectation expectation(int layers, int blocks, std::vector<bool> residuals) {
  return {.ticket = kTicket,
          .secret = kSecret,
          .layers = layers,
          .blocks = blocks,
          .planes = {Plane::kAnchor, Plane::kLossless, Plane::kBf16},
          .unit_bytes_max = 1 << 16,
          .residuals = std::move(residuals),
          .residual_planes = {Plane::kExactResidual, Plane::kBf16Residual}};
}

/// The only chunk of a unit.
WireHeader whole(const UnitKey& unit, Lane lane, std::uint32_t bytes = 100) {
  WireHeader header;
  header.lane = lane;
  header.ticket = kTicket;
  header.secret = kSecret;
  header.unit = unit;
  header.unit_bytes = header.length = bytes;
  return header;
}

constexpr UnitKey kAnchor{0, Part::kK, Plane::kAnchor, 0};
constexpr UnitKey kResidual{0, Part::kK, Plane::kExactResidual, 0};

TEST_CASE("A Residual whose Anchor is not complete is early, leaves nothing behind, and is taken afterwards") {
  TransferReceiver receiver(expectation(1, 1, {true, false}));
  const WireHeader residual = whole(kResidual, Lane::kBackground);
  CHECK(receiver.judge(residual) == Verdict::kEarly);
  CHECK_FALSE(receiver.has_acks(Lane::kBackground));
  CHECK(receiver.bytes_placed().all() == 0);
  WireHeader half = whole(kAnchor, Lane::kHigh);
  half.length = 50;
  REQUIRE(receiver.judge(half) == Verdict::kPlace);
  CHECK_FALSE(receiver.placed(half));
  CHECK(receiver.judge(residual) == Verdict::kEarly);
  // An early chunk fixes neither size nor plane.
  WireHeader other = whole(kResidual, Lane::kBackground, 60);
  other.unit.plane = Plane::kBf16Residual;
  CHECK(receiver.judge(other) == Verdict::kEarly);
  half.offset = 50;
  half.sequence = 1;
  REQUIRE(receiver.judge(half) == Verdict::kPlace);
  CHECK(receiver.placed(half));
  REQUIRE(receiver.judge(other) == Verdict::kPlace);
  CHECK(receiver.placed(other));
  CHECK(receiver.judge(other) == Verdict::kDuplicate);
  CHECK(receiver.judge(residual) == Verdict::kMalformed);  // Another size and plane than was placed.
  CHECK(receiver.bytes_placed().units == 100);
  CHECK(receiver.bytes_placed().residuals == 60);
  CHECK(receiver.bytes_placed().all() == 160);
}

TEST_CASE("An early chunk of a higher epoch takes the receiver there, and is early all the same") {
  TransferReceiver receiver(expectation(1, 1, {true, false}));
  WireHeader residual = whole(kResidual, Lane::kBackground);
  residual.epoch = 3;
  CHECK(receiver.judge(residual) == Verdict::kEarly);
  CHECK(receiver.epoch() == 3);
  CHECK(receiver.judge(whole(kAnchor, Lane::kHigh)) == Verdict::kStaleEpoch);
}

TEST_CASE("A Residual is malformed on lane 0, in a plane that is not allowed, and where none is expected") {
  TransferReceiver receiver(expectation(1, 1, {true, false}));
  const auto judge = [&](UnitKey unit, Lane lane) { return receiver.judge(whole(unit, lane)); };
  UnitKey unit = kResidual;
  CHECK(judge(unit, Lane::kHigh) == Verdict::kMalformed);
  unit.plane = Plane::kInt8Residual;
  CHECK(judge(unit, Lane::kBackground) == Verdict::kMalformed);
  unit = kResidual;
  unit.part = Part::kV;  // Comes in one step.
  CHECK(judge(unit, Lane::kBackground) == Verdict::kMalformed);
  unit = kResidual;
  unit.block = 1;
  CHECK(judge(unit, Lane::kBackground) == Verdict::kMalformed);
  unit = kAnchor;
  unit.plane = Plane::kInt8;
  CHECK(judge(unit, Lane::kHigh) == Verdict::kMalformed);
  // A malformed chunk takes nobody to a higher epoch.
  WireHeader later = whole(kResidual, Lane::kHigh);
  later.epoch = 9;
  CHECK(receiver.judge(later) == Verdict::kMalformed);
  CHECK(receiver.epoch() == 0);
  // What comes first may come on either lane: whole caches go on lane 1 as well.
  CHECK(judge(kAnchor, Lane::kBackground) == Verdict::kPlace);

  TransferExpectation one_step = expectation(1, 1, {true, true});
  one_step.residual_planes = {};
  TransferReceiver plain(one_step);
  CHECK(plain.judge(whole(kAnchor, Lane::kHigh)) == Verdict::kPlace);
  CHECK(plain.placed(whole(kAnchor, Lane::kHigh)));
  CHECK(plain.judge(whole(kResidual, Lane::kBackground)) == Verdict::kMalformed);
}

TEST_CASE("Whether Residuals are awaited is known from the first step's last unit to the second's") {
  // Residuals of the first, second and last of four units.
  TransferReceiver receiver(expectation(2, 1, {true, true, false, true}));
  std::vector<UnitKey> anchors;
  for (const std::uint16_t layer : {std::uint16_t{0}, std::uint16_t{1}}) {
    for (const Part part : {Part::kK, Part::kV}) anchors.push_back({layer, part, Plane::kAnchor, 0});
  }
  const auto place = [&](UnitKey unit, Lane lane) {
    REQUIRE(receiver.judge(whole(unit, lane)) == Verdict::kPlace);
    CHECK(receiver.placed(whole(unit, lane)));
  };
  const auto residual_of = [](UnitKey unit) {
    unit.plane = Plane::kExactResidual;
    return unit;
  };
  place(anchors[0], Lane::kHigh);
  place(residual_of(anchors[0]), Lane::kBackground);  // Before other Anchors: only its own matters.
  CHECK_FALSE(receiver.awaits_residuals());
  for (std::size_t i : {1U, 2U}) place(anchors[i], Lane::kHigh);
  CHECK_FALSE(receiver.awaits_residuals());
  place(anchors[3], Lane::kHigh);
  CHECK(receiver.awaits_residuals());
  CHECK_FALSE(receiver.complete());
  place(residual_of(anchors[1]), Lane::kBackground);
  CHECK(receiver.awaits_residuals());
  place(residual_of(anchors[3]), Lane::kBackground);
  CHECK_FALSE(receiver.awaits_residuals());
  CHECK(receiver.complete());
  CHECK(receiver.bytes_placed().units == 400);
  CHECK(receiver.bytes_placed().residuals == 300);
}

TEST_CASE("Residuals that are all there before the last Anchor are not awaited any more") {
  TransferReceiver receiver(expectation(1, 1, {true, false}));
  REQUIRE(receiver.judge(whole(kAnchor, Lane::kHigh)) == Verdict::kPlace);
  CHECK(receiver.placed(whole(kAnchor, Lane::kHigh)));
  REQUIRE(receiver.judge(whole(kResidual, Lane::kBackground)) == Verdict::kPlace);
  CHECK(receiver.placed(whole(kResidual, Lane::kBackground)));
  UnitKey last = kAnchor;
  last.part = Part::kV;
  REQUIRE(receiver.judge(whole(last, Lane::kHigh)) == Verdict::kPlace);
  CHECK(receiver.placed(whole(last, Lane::kHigh)));
  CHECK_FALSE(receiver.awaits_residuals());
  CHECK(receiver.complete());
}

TEST_CASE("Missing Residuals are named by a Residual's plane, once a round, and those that nobody expects never") {
  TransferReceiver receiver(expectation(1, 2, {true, false, true, true}));
  std::set<UnitKey> named;
  for (int call = 0; call < 7; ++call) {
    for (const UnitKey& unit : receiver.missing(1)) CHECK(named.insert(unit).second);
  }
  CHECK(named.size() == 4 + 3);
  const auto residuals = std::count_if(named.begin(), named.end(), [](const UnitKey& unit) { return is_residual(unit.plane); });
  CHECK(residuals == 3);
  CHECK(named.count({0, Part::kV, Plane::kExactResidual, 0}) == 0);
  // Named by the plane it really came in, once that is known.
  REQUIRE(receiver.judge(whole(kAnchor, Lane::kHigh)) == Verdict::kPlace);
  CHECK(receiver.placed(whole(kAnchor, Lane::kHigh)));
  WireHeader half = whole({0, Part::kK, Plane::kBf16Residual, 0}, Lane::kBackground);
  half.length = 10;
  REQUIRE(receiver.judge(half) == Verdict::kPlace);
  CHECK_FALSE(receiver.placed(half));
  const std::vector<UnitKey> all = receiver.missing(100);
  CHECK(all.size() == 6);
  CHECK(std::count(all.begin(), all.end(), half.unit) == 1);
  CHECK(std::count(all.begin(), all.end(), kAnchor) == 0);
}

// Both lanes of one ticket over a bad network, with epochs that both of them enter together.
class Simulation {
 public:
  explicit Simulation(std::uint32_t seed) : random_(seed), residuals_(draw_residuals()), receiver_(expected()) {
    for (std::size_t i = 0; i < kUnits; ++i) {
      lanes_[0].sender.add_unit(key(i, Plane::kAnchor));
      if (residuals_[i]) lanes_[1].sender.add_unit(key(i, Plane::kExactResidual));
    }
    for (LaneState& lane : lanes_) lane.sender.close();
  }

  bool run() {
    for (int step = 0; step < 400000 && !delivered(); ++step) {
      if (draw() % 3 != 0) send(draw() % 2);
      if (draw() % 2 == 0) deliver();
      if (draw() % 4 == 0) acknowledge(draw() % 2);
      if (draw() % 1500 == 0) restart();
      if (at_rest()) ask_for_missing();
    }
    return delivered() && receiver_.complete() && !receiver_.awaits_residuals() && receiver_.bytes_placed().units == bytes_[0] &&
           receiver_.bytes_placed().residuals == bytes_[1] && lanes_[0].done.size() + lanes_[1].done.size() == placed_.size();
  }
  int early() const { return early_; }
  bool anchored() const { return anchored_; }
  bool has_residuals() const { return std::find(residuals_.begin(), residuals_.end(), true) != residuals_.end(); }

 private:
  static constexpr std::size_t kBlocks = 4;
  static constexpr std::size_t kUnits = 3 * kBlocks * kParts;
  struct LaneState {
    TransferSender sender;
    std::set<std::uint32_t> done;  ///< Memory that was given back.
  };

  static UnitKey key(std::size_t index, Plane plane) {
    const std::size_t row = index / kParts;
    return {static_cast<std::uint16_t>(row / kBlocks), static_cast<Part>(index % kParts), plane,
            static_cast<std::uint32_t>(row % kBlocks)};
  }
  std::vector<bool> draw_residuals() {
    std::vector<bool> drawn(kUnits);
    const std::uint32_t percent = draw() % 3 * 50;
    for (std::size_t i = 0; i < kUnits; ++i) drawn[i] = draw() % 100 < percent;
    return drawn;
  }
  TransferExpectation expected() const {
    return expectation(static_cast<int>(kUnits / kBlocks / kParts), static_cast<int>(kBlocks), residuals_);
  }
  bool delivered() const { return lanes_[0].sender.complete() && lanes_[1].sender.complete(); }

  void send(std::size_t index) {
    TransferSender& sender = lanes_[index].sender;
    if (const auto unit = sender.unit_to_prepare()) {
      const Plane coded = index == 0 ? Plane::kAnchor : draw() % 3 == 0 ? Plane::kBf16Residual : Plane::kExactResidual;
      const std::uint32_t bytes = 1 + draw() % 4000;
      sender.prepared({coded, bytes, next_memory_++});
      bytes_[index] += bytes;
    }
    const auto chunk = sender.next_chunk(1 + draw() % 2000, ++now_us_);
    if (!chunk) return;
    WireHeader header = whole(chunk->unit, static_cast<Lane>(index), chunk->unit_bytes);
    header.epoch = epoch_;
    header.sequence = chunk->sequence;
    header.offset = chunk->offset;
    header.length = chunk->length;
    const unsigned fate = draw() % 20;
    if (fate == 0) return;  // Lost.
    network_.push_back(header);
    if (fate == 1) network_.push_back(header);  // Twice.
  }

  void deliver() {
    if (network_.empty()) return;
    const auto it = network_.begin() + static_cast<std::ptrdiff_t>(draw() % network_.size());
    const WireHeader header = *it;
    network_.erase(it);
    const bool was_anchored = receiver_.awaits_residuals();
    const Verdict verdict = receiver_.judge(header);
    UnitKey anchor = header.unit;
    anchor.plane = Plane::kAnchor;
    const bool residual = is_residual(header.unit.plane);
    CHECK((verdict == Verdict::kPlace || verdict == Verdict::kDuplicate || verdict == Verdict::kStaleEpoch ||
           verdict == Verdict::kEarly));
    if (verdict != Verdict::kStaleEpoch) CHECK((verdict == Verdict::kEarly) == (residual && placed_.count(anchor) == 0));
    const bool damaged = verdict == Verdict::kPlace && draw() % 25 == 0;
    if (verdict == Verdict::kEarly || damaged) {
      early_ += verdict == Verdict::kEarly ? 1 : 0;
      if (header.epoch == epoch_) lanes_[static_cast<std::size_t>(header.lane)].sender.on_rejected(header.sequence);
      return;
    }
    if (verdict != Verdict::kPlace || !receiver_.placed(header)) return;
    CHECK(placed_.insert(header.unit).second);
    if (receiver_.awaits_residuals() && !was_anchored) {
      CHECK_FALSE(anchored_);
      anchored_ = true;
    }
  }

  void acknowledge(std::size_t index) {
    std::vector<std::uint32_t> done;
    for (const SequenceRange range : receiver_.take_acks(static_cast<Lane>(index), 1 + draw() % 8)) {
      if (draw() % 30 == 0 || receiver_.epoch() != epoch_) continue;  // Lost, or of an old epoch.
      lanes_[index].sender.on_acked(range, now_us_, &done);
    }
    for (const std::uint32_t memory : done) CHECK(lanes_[index].done.insert(memory).second);
  }

  void restart() {
    ++epoch_;
    for (LaneState& lane : lanes_) lane.sender.restart();
  }

  bool at_rest() const {
    return network_.empty() &&
           std::all_of(std::begin(lanes_), std::end(lanes_),
                       [](const LaneState& lane) { return lane.sender.ready_bytes() == 0 && !lane.sender.unit_to_prepare(); }) &&
           !receiver_.has_acks(Lane::kHigh) && !receiver_.has_acks(Lane::kBackground);
  }

  void ask_for_missing() {
    for (const UnitKey& unit : receiver_.missing(3)) lanes_[is_residual(unit.plane) ? 1 : 0].sender.on_missing(unit, now_us_ + 1);
    if (receiver_.complete()) restart();  // All placed, yet the sender does not know: acknowledgements were lost.
  }

  std::uint32_t draw() { return static_cast<std::uint32_t>(random_()); }

  std::mt19937 random_;
  std::vector<bool> residuals_;
  TransferReceiver receiver_;
  LaneState lanes_[kLanes];
  std::uint64_t bytes_[kLanes] = {};
  std::deque<WireHeader> network_;
  std::set<UnitKey> placed_;
  std::uint32_t next_memory_ = 0;
  std::uint32_t epoch_ = 0;
  std::int64_t now_us_ = 0;
  int early_ = 0;
  bool anchored_ = false;
};

TEST_CASE("Anchors and Residuals arrive once each, never a Residual first, whatever the network does") {
  int early = 0;
  int anchored = 0;
  int without = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Simulation simulation(seed);
    CHECK(simulation.run());
    early += simulation.early();
    anchored += simulation.anchored() ? 1 : 0;
    without += simulation.has_residuals() ? 0 : 1;
    if (!simulation.has_residuals()) CHECK_FALSE(simulation.anchored());
  }
  CHECK(early > 1000);
  CHECK(anchored > 100);
  CHECK(without > 50);
}

}  // namespace
}  // namespace lynx::transport
