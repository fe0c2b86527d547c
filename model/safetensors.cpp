#include "model/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "model/byte_cursor.h"
#include "model/hf_json.h"
#include "model/untrusted_text.h"

namespace lynx::model {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostHeaderBytes = 16U << 20;  // A model of 100 layers has about 0.1 MiB.
constexpr std::size_t kMostDimensions = 8;

struct Dtype {
  std::string_view name;
  std::uint64_t bits;
  std::optional<quant::WeightType> weight;
};

constexpr Dtype kDtypes[] = {{"F32", 32, quant::WeightType::kF32},
                             {"F16", 16, quant::WeightType::kF16},
                             {"BF16", 16, quant::WeightType::kBf16},
                             {"F64", 64, {}},
                             {"I64", 64, {}},
                             {"U64", 64, {}},
                             {"I32", 32, {}},
                             {"U32", 32, {}},
                             {"I16", 16, {}},
                             {"U16", 16, {}},
                             {"I8", 8, {}},
                             {"U8", 8, {}},
                             {"BOOL", 8, {}},
                             {"F8_E4M3", 8, {}},
                             {"F8_E5M2", 8, {}},
                             {"F8_E8M0", 8, {}},
                             {"C64", 64, {}}};

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string_view name;
};

Result<std::vector<std::uint64_t>> read_integers(const json& entry, const char* key) {
  const json* member = find_member(entry, key);
  std::vector<std::uint64_t> values;
  bool good = member != nullptr && member->is_array() && member->size() <= kMostDimensions;
  for (std::size_t i = 0; good && i < member->size(); ++i) {
    good = (*member)[i].is_number_unsigned();
    if (good) values.push_back((*member)[i].get<std::uint64_t>());
  }
  if (!good) return invalid_argument(fmt::format("'{}': expected a short list of non-negative integers", key));
  return values;
}

/// Bytes of a tensor; nullopt on overflow.
std::optional<std::uint64_t> tensor_bytes(const std::vector<std::uint64_t>& shape, std::uint64_t bits) {
  std::uint64_t total = bits;
  for (const std::uint64_t extent : shape) {
    if (__builtin_mul_overflow(total, extent, &total)) return std::nullopt;
  }
  return total / 8;
}

/// One entry of the header, without its place in the data.
Status read_entry(const json& entry, std::uint64_t data_bytes, FileTensor* tensor, Extent* extent) {
  if (!entry.is_object()) return invalid_argument("expected an object");
  LYNX_RETURN_IF_ERROR(require_member(entry, "dtype", &tensor->type_name));
  const auto* dtype =
      std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const Dtype& known) { return known.name == tensor->type_name; });
  if (dtype == std::end(kDtypes)) return unimplemented(fmt::format("type {} is not supported", quote(tensor->type_name)));
  tensor->type = dtype->weight;
  LYNX_TRY(tensor->shape, read_integers(entry, "shape"));
  LYNX_TRY(const auto offsets, read_integers(entry, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    return invalid_argument(fmt::format("'data_offsets' do not lie inside the {} bytes of data", data_bytes));
  }
  const auto bytes = tensor_bytes(tensor->shape, dtype->bits);
  if (!bytes || *bytes != offsets[1] - offsets[0]) {
    return invalid_argument(
        fmt::format("'data_offsets' span {} bytes, which is not the size of the shape", offsets[1] - offsets[0]));
  }
  extent->begin = offsets[0];
  extent->end = offsets[1];
  return {};
}

Status check_coverage(std::vector<Extent> extents, std::uint64_t data_bytes) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  std::uint64_t at = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != at) {
      return invalid_argument(
          fmt::format("tensor {}: starts at byte {} of the data, expected {}", quote(extent.name), extent.begin, at));
    }
    at = extent.end;
  }
  if (at != data_bytes) return invalid_argument(fmt::format("{} bytes of data, but the tensors take {}", data_bytes, at));
  return {};
}

}  // namespace

Status add_safetensors(std::span<const std::byte> bytes, TensorTable& table) {
  ByteCursor cursor(bytes);
  std::uint64_t header_bytes = 0;
  if (!cursor.read(&header_bytes)) return invalid_argument("not a safetensors file: shorter than its length field");
  if (header_bytes > kMostHeaderBytes) {
    return invalid_argument(fmt::format("a header of {} bytes (at most {} are accepted)", header_bytes, kMostHeaderBytes));
  }
  if (header_bytes > cursor.left()) {
    return invalid_argument(fmt::format("a header of {} bytes in a file of {}", header_bytes, bytes.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(cursor.here()), static_cast<std::size_t>(header_bytes));
  auto header = parse_json(text);
  if (!header.ok()) return header.status().with_context("header");
  if (!header->is_object()) return invalid_argument("header: expected an object");
  const auto data = bytes.subspan(cursor.offset() + text.size());
  std::vector<Extent> extents;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    FileTensor tensor;
    Extent extent;
    if (Status status = read_entry(entry, data.size(), &tensor, &extent); !status.ok()) {
      return status.with_context("tensor " + quote(name));
    }
    tensor.data = data.data() + extent.begin;
    extent.name = name;
    extents.push_back(extent);
    LYNX_RETURN_IF_ERROR(table.add(name, std::move(tensor)));
  }
  return check_coverage(std::move(extents), data.size());
}

}  // namespace lynx::model
