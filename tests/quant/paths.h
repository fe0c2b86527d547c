#pragma once

#include <vector>

#include "device/isa.h"

namespace lynx::quant {

/// The paths with kernels of their own that this machine can run; portable is the first.
inline std::vector<Isa> supported_paths() {
  std::vector<Isa> paths;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512Bf16}) {
    if (isa_supported(isa)) paths.push_back(isa);
  }
  return paths;
}

}  // namespace lynx::quant
