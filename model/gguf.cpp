#include "model/gguf.h"

#include <limits>
#include <set>

#include <fmt/format.h>

#include "model/byte_cursor.h"
#include "model/untrusted_text.h"

namespace lynx::model {
namespace {

constexpr std::uint64_t kMostEntries = 65536;  // Metadata keys, tensors: far above any real file, and it bounds the parser's maps.
constexpr std::uint64_t kMostTensorValues = std::uint64_t{1} << 48;
constexpr std::uint32_t kMostAlignment = 1U << 20;

/// Bytes of one value; 0 for those without a fixed size.
std::size_t fixed_size(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool: return 1;
    case GgufType::kUint16:
    case GgufType::kInt16: return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32: return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64: return 8;
    case GgufType::kString:
    case GgufType::kArray: break;
  }
  return 0;
}

bool read_type(ByteCursor& cursor, GgufType* type) {
  std::uint32_t number = 0;
  if (!cursor.read(&number) || number > static_cast<std::uint32_t>(GgufType::kFloat64)) return false;
  *type = static_cast<GgufType>(number);
  return true;
}

}  // namespace

/// Walks the file once, front to back.
class GgufFile::Parser {
 public:
  explicit Parser(std::span<const std::byte> bytes) : bytes_(bytes), cursor_(bytes) {}

  Result<GgufFile> parse() {
    LYNX_RETURN_IF_ERROR(parse_header());
    for (std::uint64_t i = 0; i < value_count_; ++i) LYNX_RETURN_IF_ERROR(parse_entry());
    for (std::uint64_t i = 0; i < tensor_count_; ++i) LYNX_RETURN_IF_ERROR(parse_tensor());
    LYNX_RETURN_IF_ERROR(find_data());
    return std::move(file_);
  }

 private:
  Status parse_header() {
    std::uint32_t magic = 0;
    std::uint32_t version = 0;
    if (!cursor_.read(&magic) || magic != 0x46554747U) return invalid_argument("not a GGUF file: it does not start with 'GGUF'");
    if (!cursor_.read(&version)) return truncated("header");
    if ((version & 0xffffU) == 0 && version != 0) return unimplemented("big-endian GGUF is not supported");
    if (version != 2 && version != 3) return unimplemented(fmt::format("GGUF version {} is not supported (2 and 3 are)", version));
    if (!cursor_.read(&tensor_count_) || !cursor_.read(&value_count_)) return truncated("header");
    if (tensor_count_ > kMostEntries) return too_many("tensors", tensor_count_);
    if (value_count_ > kMostEntries) return too_many("metadata keys", value_count_);
    return {};
  }

  Status parse_entry() {
    std::string_view key;
    if (!cursor_.read_string(&key)) return truncated("metadata");
    GgufValue value;
    if (Status status = parse_value(&value); !status.ok()) return status.with_context("metadata key " + quote(key));
    if (!file_.values_.emplace(key, value).second) {
      return invalid_argument(fmt::format("metadata key {}: appears twice", quote(key)));
    }
    return {};
  }

  Status parse_value(GgufValue* value) {
    if (!read_type(cursor_, &value->type)) return invalid_argument("unknown type, or the file ends");
    if (value->type == GgufType::kArray) {
      value->is_array = true;
      if (!read_type(cursor_, &value->type) || !cursor_.read(&value->count)) {
        return invalid_argument("unknown element type, or the file ends");
      }
      if (value->type == GgufType::kArray) return unimplemented("arrays of arrays are not supported");
    }
    value->data = cursor_.here();
    if (value->type == GgufType::kString) {
      std::string_view text;
      for (std::uint64_t i = 0; i < value->count; ++i) {
        if (!cursor_.read_string(&text)) return invalid_argument("a string reaches beyond the end of the file");
      }
      return {};
    }
    const std::size_t size = fixed_size(value->type);
    if (value->count > cursor_.left() / size || !cursor_.skip(value->count * size)) {
      return invalid_argument(fmt::format("{} values reach beyond the end of the file", value->count));
    }
    return {};
  }

  Status parse_tensor() {
    GgufTensor tensor;
    std::uint32_t dimensions = 0;
    if (!cursor_.read_string(&tensor.name) || !cursor_.read(&dimensions)) return truncated("tensor directory");
    if (dimensions < 1 || dimensions > tensor.extents.size()) {
      return invalid_argument(fmt::format("tensor {}: {} dimensions", quote(tensor.name), dimensions));
    }
    tensor.dimensions = static_cast<int>(dimensions);
    std::uint64_t values = 1;
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      if (!cursor_.read(&tensor.extents[d])) return truncated("tensor directory");
      if (tensor.extents[d] == 0 || tensor.extents[d] > kMostTensorValues / values) {
        return invalid_argument(fmt::format("tensor {}: dimension {} is {}", quote(tensor.name), d, tensor.extents[d]));
      }
      values *= tensor.extents[d];
    }
    if (!cursor_.read(&tensor.type) || !cursor_.read(&tensor.offset)) return truncated("tensor directory");
    if (!names_.insert(tensor.name).second) {
      return invalid_argument(fmt::format("tensor {}: appears twice", quote(tensor.name)));
    }
    file_.tensors_.push_back(tensor);
    return {};
  }

  /// The data section starts at the next multiple of the alignment; a file without tensors may end before it.
  Status find_data() {
    int alignment = 32;
    LYNX_RETURN_IF_ERROR(file_.read("general.alignment", &alignment));
    const auto step = static_cast<std::uint32_t>(alignment);
    if (alignment < 1 || step > kMostAlignment || (step & (step - 1)) != 0) {
      return invalid_argument(fmt::format("metadata key 'general.alignment': {} is not a usable power of two", alignment));
    }
    int splits = 0;
    LYNX_RETURN_IF_ERROR(file_.read("split.count", &splits));
    if (splits > 1) return unimplemented(fmt::format("the file is one of {} splits; merge them first", splits));
    for (const GgufTensor& tensor : file_.tensors_) {
      if (tensor.offset % step != 0) {
        return invalid_argument(fmt::format("tensor {}: offset {} is not aligned to {}", quote(tensor.name), tensor.offset, step));
      }
    }
    const std::size_t start = (cursor_.offset() + step - 1) & ~std::size_t{step - 1};
    if (start <= bytes_.size()) file_.data_ = bytes_.subspan(start);
    return {};
  }

  Status truncated(std::string_view where) const {
    return invalid_argument(fmt::format("the file ends inside its {} (byte {} of {})", where, cursor_.offset(), bytes_.size()));
  }

  static Status too_many(std::string_view what, std::uint64_t count) {
    return invalid_argument(fmt::format("{} {} (at most {} are accepted)", count, what, kMostEntries));
  }

  std::span<const std::byte> bytes_;
  ByteCursor cursor_;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t value_count_ = 0;
  std::set<std::string_view> names_;
  GgufFile file_;
};

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes) {
  return Parser(bytes).parse();
}

}  // namespace lynx::model
