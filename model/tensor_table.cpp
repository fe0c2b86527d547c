#include "model/tensor_table.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/untrusted_text.h"

namespace lynx::model {

Status TensorTable::add(std::string_view name, FileTensor tensor) {
  const bool added = tensors_.try_emplace(std::string(name), Entry{std::move(tensor)}).second;
  return added ? Status{} : invalid_argument(fmt::format("tensor {}: appears twice", quote(name)));
}

Result<matmul::WeightSource> TensorTable::take(std::string_view name, const std::vector<std::uint64_t>& shape) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return invalid_argument(fmt::format("tensor {}: missing", quote(name)));
  const FileTensor& tensor = found->second.tensor;
  if (tensor.shape != shape) {
    return invalid_argument(
        fmt::format("tensor {}: shape [{}], expected [{}]", quote(name), fmt::join(tensor.shape, ", "), fmt::join(shape, ", ")));
  }
  if (!tensor.type) return unimplemented(fmt::format("tensor {}: type {} is not supported", quote(name), tensor.type_name));
  const std::uint64_t cols = shape.back();
  if (cols % static_cast<std::uint64_t>(quant::block_values(*tensor.type)) != 0) {
    return invalid_argument(
        fmt::format("tensor {}: rows of {} values are not whole {} blocks", quote(name), cols, tensor.type_name));
  }
  found->second.used = true;
  const std::uint64_t rows = shape.size() == 1 ? 1 : shape.front();
  return matmul::WeightSource{*tensor.type, tensor.data, static_cast<int>(rows), static_cast<int>(cols)};
}

Result<matmul::WeightSource> TensorTable::take_matrix(std::string_view name, int rows, int cols) {
  return take(name, {static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols)});
}

Result<matmul::WeightSource> TensorTable::take_vector(std::string_view name, int length) {
  return take(name, {static_cast<std::uint64_t>(length)});
}

void TensorTable::ignore(std::string_view name) {
  if (const auto found = tensors_.find(name); found != tensors_.end()) found->second.used = true;
}

std::vector<std::string> TensorTable::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : tensors_) {
    if (!entry.used) names.push_back(name);
  }
  return names;
}

}  // namespace lynx::model
