#pragma once

#include <cstddef>
#include <span>

#include "common/status.h"
#include "model/tensor_table.h"

namespace lynx::model {

/// Adds the tensors of one safetensors file to `table`. Borrows from `bytes`. INVALID_ARGUMENT, naming tensor and reason, for
/// anything malformed: as the format demands, the tensors must fill the data section without holes or overlaps, in some order.
/// Types that Lynx does not read are kept by name; types that the format does not know are UNIMPLEMENTED.
Status add_safetensors(std::span<const std::byte> bytes, TensorTable& table);

}  // namespace lynx::model
