#include "model/gguf_model.h"

#include <functional>
#include <string>

#include "tests/catch.h"
#include "tests/model/gguf_builder.h"

namespace lynx::model {
namespace {

using testing::GgufBuilder;
using testing::raw;
using testing::tiny_gguf;

/// A change to the tiny model, and how it must be refused.
struct Damage {
  std::function<void(GgufBuilder&)> apply;
  Code code;
  const char* part;
};

void check_all(const std::vector<Damage>& table) {
  for (const Damage& damage : table) {
    GgufBuilder builder = tiny_gguf();
    damage.apply(builder);
    const auto bytes = builder.build();
    const Status status = parse_gguf_model(bytes).status();
    CAPTURE(damage.part, status.to_string());
    CHECK(status.code() == damage.code);
    CHECK(status.message().find(damage.part) != std::string::npos);
  }
}

TEST_CASE("A whole model: shape, tensors, tokenizer") {
  const auto bytes = tiny_gguf().build();
  const auto model = parse_gguf_model(bytes);
  REQUIRE(model.status().to_string() == "OK");
  const ModelConfig& config = model->config;
  CHECK(config.name == "Tiny");
  CHECK(config.layers == 1);
  CHECK(config.hidden == 32);
  CHECK(config.heads == 2);
  CHECK(config.kv_heads == 1);
  CHECK(config.head_dim == 16);
  CHECK(config.ffn == 64);
  CHECK(config.vocabulary == 8);
  CHECK(config.context == 128);
  CHECK(config.norm_epsilon == 1e-5F);
  CHECK(config.rope_theta == 500000.0F);
  CHECK(config.rope_style == RopeStyle::kInterleaved);
  CHECK(config.rope_scaling.type == RopeScaling::Type::kNone);
  CHECK(config.tied_head);
  CHECK(config.end_tokens == std::vector<std::int32_t>{5, 6});  // eos, and <|eot_id|> by its name.
  CHECK(model->tensors.head.data == model->tensors.embedding.data);
  const LayerTensors& layer = model->tensors.layers.at(0);
  CHECK(layer.k.type == quant::WeightType::kQ4_0);
  CHECK(layer.k.rows == 16);
  CHECK(layer.k.cols == 32);
  CHECK(layer.down.rows == 32);
  CHECK(layer.down.cols == 64);
  CHECK(layer.up.type == quant::WeightType::kBf16);
  CHECK(layer.ffn_norm.rows == 1);
  // The builder's pattern starts with the length of the name.
  CHECK(layer.q.data[0] == static_cast<std::byte>(std::string("blk.0.attn_q.weight").size()));
  CHECK(model->tokenizer.pre_tokenizer == text::PreTokenizer::kLlama3);
  CHECK(model->tokenizer.ignore_merges);
  CHECK(model->tokenizer.add_bos);
  CHECK(model->tokenizer.bos == 4);
  CHECK(model->tokenizer.eos == 5);
  CHECK(model->tokenizer.tokens[3].kind == text::TokenizerSpec::TokenKind::kUserDefined);
  CHECK(model->tokenizer.tokens[7].kind == text::TokenizerSpec::TokenKind::kUnused);
  CHECK(model->tokenizer.merges == std::vector<std::pair<std::string, std::string>>{{"a", "b"}});
  CHECK(model->chat_template == "{{ messages[0]['content'] }}");
}

TEST_CASE("An untied head, RoPE factors and scaling are taken over") {
  GgufBuilder builder = tiny_gguf();
  builder.add_tensor("output.weight", {32, 8}, 1, 8 * 64);
  builder.add_tensor("rope_freqs.weight", {8}, 1, 16);
  builder.set_string("llama.rope.scaling.type", "linear");
  builder.set_f32("llama.rope.scaling.factor", 4.0F);
  builder.set_bool("tokenizer.ggml.add_bos_token", 0);
  builder.set_u32("tokenizer.ggml.eot_token_id", 2);
  builder.erase("tokenizer.chat_template");
  // The pattern as halves is positive: i · 37 + 17 in both bytes, below 0x40.
  const auto bytes = builder.build();
  const auto model = parse_gguf_model(bytes);
  REQUIRE(model.status().to_string() == "OK");
  CHECK_FALSE(model->config.tied_head);
  CHECK(model->tensors.head.type == quant::WeightType::kF16);
  CHECK(model->config.rope_scaling.type == RopeScaling::Type::kLinear);
  CHECK(model->config.rope_scaling.factor == 4.0F);
  CHECK(model->config.rope_scaling.factors.size() == 8);
  CHECK_FALSE(model->tokenizer.add_bos);
  CHECK(model->config.end_tokens == std::vector<std::int32_t>{2, 5, 6});
  CHECK_FALSE(model->chat_template.has_value());
}

TEST_CASE("Other architectures and variants are refused by name") {
  check_all({
      {[](GgufBuilder& b) { b.set_string("general.architecture", "qwen2"); }, Code::kUnimplemented, "'qwen2'"},
      {[](GgufBuilder& b) { b.erase("general.architecture"); }, Code::kInvalidArgument, "'general.architecture': missing"},
      {[](GgufBuilder& b) { b.set_u32("llama.expert_count", 8); }, Code::kUnimplemented, "8 experts"},
      {[](GgufBuilder& b) { b.set_string("llama.rope.scaling.type", "yarn"); }, Code::kUnimplemented, "'yarn'"},
      {[](GgufBuilder& b) { b.set_u32("llama.rope.dimension_count", 8); }, Code::kUnimplemented, "8 of 16"},
      {[](GgufBuilder& b) { b.set_u32("llama.attention.value_length", 8); }, Code::kUnimplemented, "value heads of 8"},
      {[](GgufBuilder& b) { b.set_u32("llama.attention.sliding_window", 64); }, Code::kUnimplemented, "sliding_window"},
      {[](GgufBuilder& b) { b.set_bool("llama.attention.causal", 0); }, Code::kUnimplemented, "causal"},
      {[](GgufBuilder& b) { b.set_f32("llama.logit_scale", 0.5F); }, Code::kUnimplemented, "logit_scale"},
      {[](GgufBuilder& b) { b.set_f32("llama.attention.clamp_kqv", 8.0F); }, Code::kUnimplemented, "clamp_kqv"},
      {[](GgufBuilder& b) { b.set_string("tokenizer.ggml.model", "llama"); }, Code::kUnimplemented, "SentencePiece"},
      {[](GgufBuilder& b) { b.set_string("tokenizer.ggml.model", "bert"); }, Code::kUnimplemented, "'bert'"},
      {[](GgufBuilder& b) { b.set_string("tokenizer.ggml.pre", "tekken"); }, Code::kUnimplemented, "'tekken'"},
      {[](GgufBuilder& b) { b.add_tensor("blk.0.attn_q.bias", {32}, 0, 128); }, Code::kUnimplemented, "'blk.0.attn_q.bias'"},
      {[](GgufBuilder& b) { b.tensor("blk.0.ffn_up.weight").type = 10; }, Code::kUnimplemented, "type Q2_K"},
      {[](GgufBuilder& b) { b.tensor("blk.0.ffn_up.weight").type = 20; }, Code::kUnimplemented, "type IQ4_NL"},
      {[](GgufBuilder& b) { b.tensor("blk.0.ffn_up.weight").type = 99; }, Code::kUnimplemented, "type number 99"},
  });
}

TEST_CASE("Shapes that contradict each other") {
  check_all({
      {[](GgufBuilder& b) { b.set_u32("llama.block_count", 2); }, Code::kInvalidArgument, "'blk.1.attn_norm.weight': missing"},
      {[](GgufBuilder& b) { b.set_u32("llama.block_count", 0); }, Code::kInvalidArgument, "layers is 0"},
      {[](GgufBuilder& b) { b.set_u32("llama.block_count", 2000000000); }, Code::kInvalidArgument, "layers"},
      {[](GgufBuilder& b) { b.erase("llama.context_length"); }, Code::kInvalidArgument, "'llama.context_length': missing"},
      {[](GgufBuilder& b) { b.set_u32("llama.attention.head_count", 0); }, Code::kInvalidArgument, "heads"},
      {[](GgufBuilder& b) { b.set_u32("llama.attention.head_count", 3); }, Code::kInvalidArgument, "not a multiple"},
      {[](GgufBuilder& b) { b.set_i32s("llama.attention.head_count_kv", {1}); }, Code::kInvalidArgument, "head_count_kv"},
      {[](GgufBuilder& b) { b.set_u32("llama.vocab_size", 9); }, Code::kInvalidArgument, "there are 8 tokens"},
      {[](GgufBuilder& b) { b.set_f32("llama.attention.layer_norm_rms_epsilon", -1.0F); }, Code::kInvalidArgument, "epsilon"},
      {[](GgufBuilder& b) { b.set_raw("llama.rope.freq_base", 6, raw(0x7fc00000U)); }, Code::kInvalidArgument, "base frequency"},
      {[](GgufBuilder& b) { b.erase_tensor("output_norm.weight"); }, Code::kInvalidArgument, "'output_norm.weight': missing"},
      {[](GgufBuilder& b) {
         b.tensor("blk.0.ffn_norm.weight").extents = {16, 2};
       },
       Code::kInvalidArgument, "'blk.0.ffn_norm.weight': shape [2, 16], expected [32]"},
      {[](GgufBuilder& b) {
         b.tensor("blk.0.ffn_down.weight").extents = {32, 64};
       },
       Code::kInvalidArgument, "'blk.0.ffn_down.weight': shape [64, 32], expected [32, 64]"},
      {[](GgufBuilder& b) {
         b.tensor("blk.0.attn_q.weight").extents = {16, 64};
       },
       Code::kInvalidArgument, "'blk.0.attn_q.weight': rows of 16 values are not whole Q4_1 blocks"},
      {[](GgufBuilder& b) { b.tensor("blk.0.attn_q.weight").offset = 1 << 20; }, Code::kInvalidArgument, "reach beyond"},
      {[](GgufBuilder& b) { b.tensor("blk.0.attn_q.weight").offset = 0; }, Code::kInvalidArgument, "overlaps"},
      {[](GgufBuilder& b) { b.tensor("blk.0.attn_q.weight").offset = 0x7fffffffffffffe0; }, Code::kInvalidArgument, "reach beyond"},
      {[](GgufBuilder& b) { b.cut_bytes = 1; }, Code::kInvalidArgument, "'output_norm.weight': 128 bytes"},
      {[](GgufBuilder& b) { b.add_tensor("rope_freqs.weight", {4}, 0, 16); }, Code::kInvalidArgument, "'rope_freqs.weight'"},
  });
}

TEST_CASE("Tokenizers that contradict themselves") {
  check_all({
      {[](GgufBuilder& b) { b.erase("tokenizer.ggml.tokens"); }, Code::kInvalidArgument, "tokenizer.ggml.tokens"},
      {[](GgufBuilder& b) { b.set_i32s("tokenizer.ggml.token_type", {1}); }, Code::kInvalidArgument, "8 tokens, but 1"},
      {[](GgufBuilder& b) {
         b.set_i32s("tokenizer.ggml.token_type", {1, 1, 1, 1, 6, 1, 1, 1});
       },
       Code::kInvalidArgument, "token 4"},
      {[](GgufBuilder& b) { b.set_strings("tokenizer.ggml.merges", {"ab"}); }, Code::kInvalidArgument, "merge 0"},
      {[](GgufBuilder& b) {
         b.set_strings("tokenizer.ggml.merges", {"a b", "a b c"});
       },
       Code::kInvalidArgument, "merge 1"},
      {[](GgufBuilder& b) { b.set_strings("tokenizer.ggml.merges", {" a"}); }, Code::kInvalidArgument, "merge 0"},
      {[](GgufBuilder& b) { b.set_u32("tokenizer.ggml.eos_token_id", 8); }, Code::kInvalidArgument, "eos_token_id"},
      {[](GgufBuilder& b) { b.set_i32("tokenizer.ggml.bos_token_id", -2); }, Code::kInvalidArgument, "bos_token_id"},
      {[](GgufBuilder& b) { b.set_string("tokenizer.chat_template", "\xff"); }, Code::kInvalidArgument, "chat_template"},
      {[](GgufBuilder& b) { b.set_string("general.name", "\xed\xa0\x80"); }, Code::kInvalidArgument, "general.name"},
  });
}

TEST_CASE("A file's bytes never reach a message unescaped") {
  GgufBuilder builder = tiny_gguf();
  builder.set_string("general.architecture", "bad\x1b[31m\n\xff" + std::string(500, 'x'));
  const auto bytes = builder.build();
  const std::string message = parse_gguf_model(bytes).status().message();
  CHECK(message.find("bad\\x1b[31m\\x0a\\xff") != std::string::npos);
  CHECK(message.size() < 250);
}

}  // namespace
}  // namespace lynx::model
