#pragma once

#include <cstddef>

namespace lynx::fuzz {

/// Measures operator new of the whole (single-threaded) test executable.
void reset_allocation_peak();
/// The most bytes in use at once since the last reset, beyond what was in use then.
std::size_t allocation_peak();

}  // namespace lynx::fuzz
