// libFuzzer: the input's first two bytes say how many values are wanted, the rest is a coded unit. Every path that this machine has
// must judge it alike; what is accepted, encoded again and decoded, is the same values.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/isa.h"
#include "quant/lossless.h"

namespace {

using lynx::Bf16;
using lynx::Isa;

void require(bool condition) {
  if (!condition) std::abort();
}

std::optional<std::vector<Bf16>> decode(Isa isa, std::span<const std::byte> coded, std::size_t count) {
  const std::unique_ptr<std::byte[]> exact(new std::byte[coded.size()]);
  std::copy(coded.begin(), coded.end(), exact.get());
  std::vector<Bf16> values(count);
  if (!lynx::quant::decode_lossless(isa, {exact.get(), coded.size()}, values).ok()) return std::nullopt;
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t count = data[0] + 256U * (data[1] % 16);
  const auto coded = std::as_bytes(std::span(data, size)).subspan(2);
  const auto values = decode(Isa::kPortable, coded, count);
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512Bf16}) {
    if (!lynx::isa_supported(isa)) continue;
    require(decode(isa, coded, count) == values);
    if (!values) continue;
    std::vector<std::byte> again(lynx::quant::lossless_bound(count));
    again.resize(lynx::quant::encode_lossless(isa, *values, again));
    if (!again.empty()) require(decode(isa, again, count) == values);
  }
  return 0;
}
