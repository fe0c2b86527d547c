// libFuzzer: the input's first byte chooses the unit and the Residual, the rest are its Anchor and an int8 or exact Residual. Every
// path that this machine has must judge them alike and get the same values; what an exact Residual gives, encoded again and
// decoded, is the same values, and all paths encode to the same bytes.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "quant/plane_codec.h"

namespace {

using lynx::Bf16;
using lynx::Isa;
using lynx::quant::PlanePart;
using lynx::quant::PlaneUnit;

constexpr Isa kPaths[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512Bf16};

void require(bool condition) {
  if (!condition) std::abort();
}

/// In memory of just the right size.
struct Exact {
  explicit Exact(std::span<const std::byte> bytes) : data(new std::byte[bytes.size()]), size(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), data.get());
  }
  std::span<const std::byte> span() const { return {data.get(), size}; }

  std::unique_ptr<std::byte[]> data;
  std::size_t size;
};

PlaneUnit unit_of(std::uint8_t choice) {
  return {(choice & 1) != 0 ? PlanePart::kK : PlanePart::kV, 1, 2 + (choice >> 3 & 15) * 6, (choice & 4) != 0, (choice & 2) != 0};
}

/// Runs decode(isa, values) on all paths: whether they accepted, with the values.
template <class Decode>
std::optional<std::vector<Bf16>> decode_alike(const PlaneUnit& unit, Decode decode) {
  std::optional<std::vector<Bf16>> first;
  for (const Isa isa : kPaths) {
    if (!lynx::isa_supported(isa)) continue;
    std::vector<Bf16> values(lynx::quant::unit_slots(unit));
    const bool sound = decode(isa, values).ok();
    if (isa == Isa::kPortable && sound) first = values;
    require(sound == first.has_value());
    require(!sound || values == *first);
  }
  return first;
}

std::vector<std::byte> encode_alike(const PlaneUnit& unit, std::span<const std::byte> anchor, const std::vector<Bf16>& values) {
  std::vector<std::byte> first;
  for (const Isa isa : kPaths) {
    if (!lynx::isa_supported(isa)) continue;
    std::vector<std::byte> coded(lynx::quant::exact_residual_bound(unit));
    coded.resize(lynx::quant::encode_exact_residual(isa, unit, anchor, values, coded));
    if (isa == Isa::kPortable) first = coded;
    require(coded == first);
  }
  return first;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const PlaneUnit unit = unit_of(data[0]);
  const auto input = std::as_bytes(std::span(data, size)).subspan(1);
  const std::size_t anchor_bytes = std::min(lynx::quant::anchor_bytes(unit), input.size());
  const Exact anchor(input.first(anchor_bytes));
  const Exact residual(input.subspan(anchor_bytes));

  const auto view = decode_alike(
      unit, [&](Isa isa, std::vector<Bf16>& out) { return lynx::quant::decode_anchor(isa, unit, anchor.span(), out); });
  require(view.has_value() == (anchor.size == lynx::quant::anchor_bytes(unit)));
  if (data[0] >= 128 && !unit.wide_anchor) {
    decode_alike(unit, [&](Isa isa, std::vector<Bf16>& out) {
      return lynx::quant::decode_int8(isa, unit, anchor.span(), residual.span(), out);
    });
    return 0;
  }
  const auto values = decode_alike(unit, [&](Isa isa, std::vector<Bf16>& out) {
    return lynx::quant::decode_exact(isa, unit, anchor.span(), residual.span(), out);
  });
  if (!values) return 0;
  require(view.has_value());
  const std::vector<std::byte> again = encode_alike(unit, anchor.span(), *values);
  if (again.empty()) return 0;
  const Exact coded(again);
  require(decode_alike(unit, [&](Isa isa, std::vector<Bf16>& out) {
            return lynx::quant::decode_exact(isa, unit, anchor.span(), coded.span(), out);
          }) == values);
  return 0;
}
