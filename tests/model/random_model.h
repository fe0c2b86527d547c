#pragma once

// Small models with random weights behind the ModelFile interface: every shape and weight type in no time.

#include <cmath>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "model/model_file.h"
#include "quant/weight_blocks.h"

namespace lynx::model {

class RandomModel : public ModelFile {
 public:
  /// `type` is that of all matrices: F32, Q4_1 or Q8_0 (these need dimensions that are multiples of 32).
  RandomModel(ModelConfig config, quant::WeightType type, unsigned seed) : config_(std::move(config)), type_(type), random_(seed) {
    const int q_width = config_.heads * config_.head_dim;
    const int kv_width = config_.kv_heads * config_.head_dim;
    embedding_ = matrix(config_.vocabulary, config_.hidden, 4.0F);
    head_ = config_.tied_head ? embedding_ : matrix(config_.vocabulary, config_.hidden, 4.0F);
    final_norm_ = norm();
    for (int index = 0; index < config_.layers; ++index) {
      layers_.push_back({norm(), matrix(q_width, config_.hidden, 2.0F), matrix(kv_width, config_.hidden, 2.0F),
                         matrix(kv_width, config_.hidden, 1.0F), matrix(config_.hidden, q_width, 1.0F), norm(),
                         matrix(config_.ffn, config_.hidden, 1.0F), matrix(config_.ffn, config_.hidden, 1.0F),
                         matrix(config_.hidden, config_.ffn, 1.0F)});
    }
  }

  const ModelConfig& config() const override { return config_; }
  matmul::WeightSource embedding() const override { return embedding_; }
  matmul::WeightSource final_norm() const override { return final_norm_; }
  matmul::WeightSource head() const override { return head_; }
  LayerTensors layer(int index) const override { return layers_[static_cast<std::size_t>(index)]; }
  const text::TokenizerSpec& tokenizer() const override { return tokenizer_; }
  std::optional<std::string> chat_template() const override { return std::nullopt; }
  void drop_pages() override {}

 private:
  matmul::WeightSource keep(quant::WeightType type, std::vector<std::byte> bytes, int rows, int cols) {
    storage_.push_back(std::move(bytes));
    return {type, storage_.back().data(), rows, cols};
  }

  matmul::WeightSource floats(int rows, int cols, float mean, float deviation) {
    std::normal_distribution<float> normal(mean, deviation);
    std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
    for (float& value : values) value = normal(random_);
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return keep(quant::WeightType::kF32, std::move(bytes), rows, cols);
  }

  matmul::WeightSource norm() { return floats(1, config_.hidden, 1.0F, 0.2F); }

  /// Entries of about gain / sqrt(cols), so that activations keep their size.
  matmul::WeightSource matrix(int rows, int cols, float gain) {
    if (type_ == quant::WeightType::kF32) return floats(rows, cols, 0.0F, gain / std::sqrt(static_cast<float>(cols)));
    const std::size_t block = quant::block_bytes(type_);
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols / 32) * block);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
    for (std::size_t at = 0; at < bytes.size(); at += block) {
      // FP16: Q4_1 scales 0.016 … 0.03 and minima −0.25 … −0.125, Q8_0 scales 0.001 … 0.002.
      const bool q4 = type_ == quant::WeightType::kQ4_1;
      put_half(&bytes[at], (q4 ? 0x2400U : 0x1400U) + random_() % 0x400U);
      if (q4) put_half(&bytes[at + 2], 0xB000U + random_() % 0x400U);
    }
    return keep(type_, std::move(bytes), rows, cols);
  }

  static void put_half(std::byte* at, std::uint_fast32_t bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    std::memcpy(at, &half, sizeof half);
  }

  ModelConfig config_;
  quant::WeightType type_;
  std::mt19937 random_;
  std::deque<std::vector<std::byte>> storage_;
  matmul::WeightSource embedding_{};
  matmul::WeightSource head_{};
  matmul::WeightSource final_norm_{};
  std::vector<LayerTensors> layers_;
  text::TokenizerSpec tokenizer_;
};

/// Nothing is a multiple of a tile; head untied; heads of 20.
inline ModelConfig ragged_config() {
  ModelConfig config;
  config.layers = 2;
  config.hidden = 84;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 20;
  config.ffn = 101;
  config.vocabulary = 131;
  config.context = 2048;
  return config;
}

/// For weights in blocks of 32; head tied; Llama 3's frequency scaling.
inline ModelConfig blocked_config() {
  ModelConfig config;
  config.layers = 2;
  config.hidden = 96;
  config.heads = 3;
  config.kv_heads = 1;
  config.head_dim = 32;
  config.ffn = 160;
  config.vocabulary = 200;
  config.context = 2048;
  config.tied_head = true;
  config.rope_style = RopeStyle::kInterleaved;
  config.rope_theta = 500000.0F;
  config.rope_scaling.type = RopeScaling::Type::kLlama3;
  config.rope_scaling.factor = 8.0F;
  config.rope_scaling.original_context = 512;
  return config;
}

}  // namespace lynx::model
