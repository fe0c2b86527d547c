#include "transport/transfer_receiver.h"

#include <algorithm>
#include <utility>

namespace lynx::transport {
namespace {

constexpr int kParts = 2;
constexpr std::size_t kAckRangesMax = 4096;

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPlace: return "place";
    case Verdict::kDuplicate: return "duplicate";
    case Verdict::kStaleEpoch: return "stale epoch";
    case Verdict::kForeign: return "foreign";
    case Verdict::kMalformed: return "malformed";
    case Verdict::kEarly: return "early";
  }
  return "unknown";
}

TransferReceiver::TransferReceiver(TransferExpectation expectation) : expectation_(std::move(expectation)) {
  units_per_step_ = static_cast<std::size_t>(expectation_.layers) * static_cast<std::size_t>(expectation_.blocks) * kParts;
  expectation_.residuals.resize(expectation_.residual_planes.empty() ? 0 : units_per_step_);
  residuals_expected_ = static_cast<std::size_t>(std::count(expectation_.residuals.begin(), expectation_.residuals.end(), true));
  units_.resize(residuals_expected_ == 0 ? units_per_step_ : 2 * units_per_step_);
}

bool TransferReceiver::expects(std::size_t index) const {
  return index < units_per_step_ || expectation_.residuals[index - units_per_step_];
}

std::optional<std::size_t> TransferReceiver::index_of(const UnitKey& unit) const {
  if (unit.layer >= expectation_.layers || unit.block >= static_cast<std::uint32_t>(expectation_.blocks)) return std::nullopt;
  const bool residual = is_residual(unit.plane);
  const std::vector<Plane>& planes = residual ? expectation_.residual_planes : expectation_.planes;
  if (std::find(planes.begin(), planes.end(), unit.plane) == planes.end()) return std::nullopt;
  const std::size_t index =
      (static_cast<std::size_t>(unit.layer) * static_cast<std::size_t>(expectation_.blocks) + unit.block) * kParts +
      static_cast<std::size_t>(unit.part) + (residual ? units_per_step_ : 0);
  if (index >= units_.size() || !expects(index)) return std::nullopt;
  return index;
}

Verdict TransferReceiver::judge(const WireHeader& header) {
  if (!(header.ticket == expectation_.ticket) || !equal_secrets(header.secret, expectation_.secret)) return Verdict::kForeign;
  if (header.epoch < epoch_) return Verdict::kStaleEpoch;
  auto index = index_of(header.unit);
  if (!index || header.unit_bytes == 0 || header.unit_bytes > expectation_.unit_bytes_max) return Verdict::kMalformed;
  if (header.length == 0 || std::uint64_t{header.offset} + header.length > header.unit_bytes) return Verdict::kMalformed;
  const bool residual = is_residual(header.unit.plane);
  if (residual && header.lane != Lane::kBackground) return Verdict::kMalformed;
  UnitState& unit = units_[*index];
  if (unit.bytes != 0 && (unit.bytes != header.unit_bytes || unit.plane != header.unit.plane)) return Verdict::kMalformed;
  if (header.epoch > epoch_) begin_epoch(header.epoch);
  if (residual && !is_complete(units_[*index - units_per_step_])) return Verdict::kEarly;
  unit.bytes = header.unit_bytes;
  unit.plane = header.unit.plane;
  auto after = unit.ranges.upper_bound(header.offset);
  std::uint32_t covered_to = after == unit.ranges.begin() ? 0 : std::prev(after)->second;
  if (covered_to >= header.offset + header.length) {
    acknowledge(header.lane, header.sequence);
    return Verdict::kDuplicate;
  }
  return Verdict::kPlace;
}

bool TransferReceiver::placed(const WireHeader& header) {
  UnitState& unit = units_[*index_of(header.unit)];
  std::uint32_t start = header.offset;
  std::uint32_t end = start + header.length;
  // A resent piece may be cut anew and lie partly on bytes that are there: only the new ones count.
  auto it = unit.ranges.upper_bound(start);
  if (it != unit.ranges.begin() && std::prev(it)->second >= start) --it;
  std::uint32_t already = 0;
  while (it != unit.ranges.end() && it->first <= end) {
    std::uint32_t overlap_end = std::min(it->second, header.offset + header.length);
    std::uint32_t overlap_start = std::max(it->first, header.offset);
    if (overlap_end > overlap_start) already += overlap_end - overlap_start;
    start = std::min(start, it->first);
    end = std::max(end, it->second);
    it = unit.ranges.erase(it);
  }
  unit.ranges.emplace(start, end);
  unit.placed += header.length - already;
  const bool residual = is_residual(header.unit.plane);
  (residual ? bytes_placed_.residuals : bytes_placed_.units) += header.length - already;
  acknowledge(header.lane, header.sequence);
  if (unit.placed != unit.bytes) return false;
  ++complete_[residual ? 1 : 0];
  return true;
}

void TransferReceiver::begin_epoch(std::uint32_t epoch) {
  epoch_ = epoch;
  for (auto& acks : acks_) acks.clear();
}

UnitKey TransferReceiver::key_of(std::size_t index) const {
  const auto blocks = static_cast<std::size_t>(expectation_.blocks);
  const std::size_t row = index % units_per_step_ / kParts;
  const UnitState& unit = units_[index];
  const Plane guess = (index < units_per_step_ ? expectation_.planes : expectation_.residual_planes).front();
  return {static_cast<std::uint16_t>(row / blocks), static_cast<Part>(index % kParts), unit.bytes != 0 ? unit.plane : guess,
          static_cast<std::uint32_t>(row % blocks)};
}

std::vector<UnitKey> TransferReceiver::missing(std::size_t limit) {
  std::vector<UnitKey> keys;
  std::size_t index = missing_from_;
  for (std::size_t seen = 0; seen < units_.size() && keys.size() < limit; ++seen) {
    if (expects(index) && !is_complete(units_[index])) keys.push_back(key_of(index));
    index = (index + 1) % units_.size();
  }
  missing_from_ = index;
  return keys;
}

void TransferReceiver::acknowledge(Lane lane, std::uint32_t sequence) {
  auto& ranges = acks_[static_cast<std::size_t>(lane)];
  if (!ranges.empty() && ranges.back().last + 1 == sequence) {
    ranges.back().last = sequence;
  } else if (ranges.size() < kAckRangesMax) {
    ranges.push_back({sequence, sequence});
  }
}

std::vector<SequenceRange> TransferReceiver::take_acks(Lane lane, std::size_t limit) {
  auto& ranges = acks_[static_cast<std::size_t>(lane)];
  std::size_t count = std::min(limit, ranges.size());
  std::vector<SequenceRange> taken(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(count));
  ranges.erase(ranges.begin(), ranges.begin() + static_cast<std::ptrdiff_t>(count));
  return taken;
}

}  // namespace lynx::transport
