#pragma once

#include <string_view>

#include "common/status.h"

namespace lynx {

/// The instruction-set paths of the CPU kernels, weakest first. One is chosen at start and never mixed within a process: two paths
/// may round differently, and the text must not depend on which one ran a row.
enum class Isa { kPortable, kAvx2, kAvx512Bf16, kAmxBf16 };

/// "portable", "avx2", "avx512bf16", "amxbf16": the values of --isa.
std::string_view isa_name(Isa isa);

/// Whether this processor and kernel can run the path. For kAmxBf16 it also asks the kernel for the tile-data permission.
bool isa_supported(Isa isa);

/// The best supported path for "auto", else the named one. INVALID_ARGUMENT for an unknown name, FAILED_PRECONDITION for a path
/// that this machine cannot run (the message names what it can).
Result<Isa> choose_isa(std::string_view name);

}  // namespace lynx
