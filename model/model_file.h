#pragma once

// A model on disk: GGUF v2/v3, or a Hugging Face directory (config.json, *.safetensors, tokenizer.json). The bytes are untrusted:
// every offset, size, shape and type is checked once, here; behind this interface tensors can be trusted.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "matmul/matmul.h"
#include "model/model_config.h"
#include "text/tokenizer_spec.h"

namespace lynx::model {

/// The weight tensors of one decoder layer; the data pointers live as long as the ModelFile.
struct LayerTensors {
  matmul::WeightSource attention_norm;  ///< [1][hidden]
  matmul::WeightSource q;               ///< [heads · head_dim][hidden]
  matmul::WeightSource k;               ///< [kv_heads · head_dim][hidden]
  matmul::WeightSource v;               ///< [kv_heads · head_dim][hidden]
  matmul::WeightSource o;               ///< [hidden][heads · head_dim]
  matmul::WeightSource ffn_norm;        ///< [1][hidden]
  matmul::WeightSource gate;            ///< [ffn][hidden]
  matmul::WeightSource up;              ///< [ffn][hidden]
  matmul::WeightSource down;            ///< [hidden][ffn]
};

class ModelFile {
 public:
  /// Maps a .gguf file or a directory. Errors name file, tensor and reason; other architectures and tensor types are UNIMPLEMENTED
  /// by name.
  static Result<std::unique_ptr<ModelFile>> open(const std::string& path);
  virtual ~ModelFile() = default;

  virtual const ModelConfig& config() const = 0;
  virtual matmul::WeightSource embedding() const = 0;  ///< [vocabulary][hidden]
  virtual matmul::WeightSource final_norm() const = 0;
  virtual matmul::WeightSource head() const = 0;  ///< [vocabulary][hidden]; the embedding when tied.
  virtual LayerTensors layer(int index) const = 0;

  /// What the tokenizer is made from.
  virtual const text::TokenizerSpec& tokenizer() const = 0;
  /// The chat template's source (Jinja); nullopt when the model has none.
  virtual std::optional<std::string> chat_template() const = 0;

  /// Tells the kernel that the mapped pages are no longer needed, once the weights are packed.
  virtual void drop_pages() = 0;
};

}  // namespace lynx::model
