#pragma once

// The tensors that model files hold, by name, whatever the format: what is asked for is checked for shape and type and then handed
// out; what nobody asked for is reported, since a weight that is left out would silently change the model.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "matmul/matmul.h"
#include "quant/weight_blocks.h"

namespace lynx::model {

/// One tensor of a file. Not owned: `data` points into a mapping.
struct FileTensor {
  std::optional<quant::WeightType> type;  ///< nullopt: a type that Lynx does not read; then `data` may be null.
  std::string type_name;                  ///< As the file's format calls it.
  std::vector<std::uint64_t> shape;       ///< Outermost dimension first.
  const std::byte* data = nullptr;        ///< In bounds for the whole shape, if the type is read.
};

class TensorTable {
 public:
  /// INVALID_ARGUMENT when the name is already there.
  Status add(std::string_view name, FileTensor tensor);

  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

  /// The tensor [rows][cols]. INVALID_ARGUMENT, naming tensor and reason, when it is missing or has another shape; UNIMPLEMENTED
  /// for a type that is not read.
  Result<matmul::WeightSource> take_matrix(std::string_view name, int rows, int cols);
  /// The tensor [length], as one row.
  Result<matmul::WeightSource> take_vector(std::string_view name, int length);
  /// Marks a tensor as known and of no use.
  void ignore(std::string_view name);

  /// Names of tensors neither taken nor ignored, in order.
  std::vector<std::string> unused() const;

 private:
  struct Entry {
    FileTensor tensor;
    bool used = false;
  };
  Result<matmul::WeightSource> take(std::string_view name, const std::vector<std::uint64_t>& shape);

  std::map<std::string, Entry, std::less<>> tensors_;
};

}  // namespace lynx::model
