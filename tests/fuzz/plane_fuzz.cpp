// libFuzzer: the input's first byte chooses the unit, the rest are its Anchor and an exact Residual. What is accepted, encoded
// again and decoded, is the same values.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "quant/plane_codec.h"

namespace {

using lynx::Bf16;
using lynx::Isa;
using lynx::quant::PlanePart;
using lynx::quant::PlaneUnit;

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
  return {(choice & 1) != 0 ? PlanePart::kK : PlanePart::kV, 1, 2 + (choice >> 3) * 2, (choice & 4) != 0, (choice & 2) != 0};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const PlaneUnit unit = unit_of(data[0]);
  const auto input = std::as_bytes(std::span(data, size)).subspan(1);
  const std::size_t anchor_bytes = std::min(lynx::quant::anchor_bytes(unit), input.size());
  const Exact anchor(input.first(anchor_bytes));
  const Exact residual(input.subspan(anchor_bytes));

  std::vector<Bf16> values(lynx::quant::unit_slots(unit));
  const bool sound = lynx::quant::decode_anchor(Isa::kPortable, unit, anchor.span(), values).ok();
  require(sound == (anchor.size == lynx::quant::anchor_bytes(unit)));
  if (!lynx::quant::decode_exact(Isa::kPortable, unit, anchor.span(), residual.span(), values).ok()) return 0;
  require(sound);
  std::vector<std::byte> again(lynx::quant::exact_residual_bound(unit));
  again.resize(lynx::quant::encode_exact_residual(Isa::kPortable, unit, anchor.span(), values, again));
  if (again.empty()) return 0;
  std::vector<Bf16> back(values.size());
  require(lynx::quant::decode_exact(Isa::kPortable, unit, anchor.span(), Exact(again).span(), back).ok());
  require(back == values);
  return 0;
}
