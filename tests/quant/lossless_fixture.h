#pragma once

// What the tests of the lossless plane share. Buffers have exactly the size that is promised, so that a sanitizer sees every byte
// read or written beyond them.

#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "device/isa.h"
#include "quant/lossless.h"
#include "tests/catch.h"
#include "tests/quant/paths.h"

namespace lynx::quant {

using Values = std::vector<Bf16>;
using Bytes = std::vector<std::byte>;

/// The coded bytes, empty for raw. The encoder must have left what follows them alone.
inline Bytes encode(Isa isa, const Values& values) {
  constexpr std::byte kUntouched{0xa5};
  Bytes out(lossless_bound(values.size()), kUntouched);
  const std::size_t bytes = encode_lossless(isa, values, out);
  REQUIRE(bytes <= out.size());
  for (std::size_t i = bytes; i < out.size(); ++i) {
    if (out[i] != kUntouched) FAIL("byte " << i << " behind " << bytes << " coded ones was written");
  }
  out.resize(bytes);
  return out;
}

/// Decodes from and to memory of just the right size.
inline Status decode(Isa isa, std::span<const std::byte> coded, Values* values) {
  const std::unique_ptr<std::byte[]> exact(new std::byte[coded.size()]);
  if (!coded.empty()) std::memcpy(exact.get(), coded.data(), coded.size());
  return decode_lossless(isa, {exact.get(), coded.size()}, *values);
}

/// Every path codes to the same bytes, and every path decodes them. Returns the bytes; 0 = raw.
inline std::size_t check_round_trip(const Values& values) {
  const std::vector<Isa> paths = supported_paths();
  const Bytes coded = encode(paths.front(), values);
  for (const Isa isa : paths) {
    CAPTURE(isa_name(isa));
    REQUIRE(encode(isa, values) == coded);
    if (coded.empty()) continue;
    REQUIRE(coded.size() < 2 * values.size());
    Values back(values.size(), 0x1234);
    const Status status = decode(isa, coded, &back);
    REQUIRE(status.to_string() == "OK");
    REQUIRE(back == values);
  }
  return coded.size();
}

/// Like a KV cache: normal, of one scale.
inline Values normal_values(std::size_t count, std::mt19937_64& rng) {
  std::normal_distribution<float> normal(0.1F, 2.0F);
  Values values(count);
  for (Bf16& value : values) value = float_to_bf16(normal(rng));
  return values;
}

}  // namespace lynx::quant
