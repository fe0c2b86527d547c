#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/model_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (!lynx::fuzz::try_plane_profile(std::as_bytes(std::span(data, size))).empty()) std::abort();
  return 0;
}
