#include "tests/model/gguf_builder.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace lynx::model::testing {
namespace {

std::string encode_string(std::string_view text) {
  return raw(static_cast<std::uint64_t>(text.size())) + std::string(text);
}

}  // namespace

void GgufBuilder::set_raw(const std::string& key, std::uint32_t type, const std::string& bytes) {
  std::string value = raw(type) + bytes;
  const auto found = std::find_if(keys_.begin(), keys_.end(), [&](const auto& entry) { return entry.first == key; });
  if (found == keys_.end()) {
    keys_.emplace_back(key, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

void GgufBuilder::set_u32(const std::string& key, std::uint32_t value) {
  set_raw(key, 4, raw(value));
}
void GgufBuilder::set_i32(const std::string& key, std::int32_t value) {
  set_raw(key, 5, raw(value));
}
void GgufBuilder::set_u64(const std::string& key, std::uint64_t value) {
  set_raw(key, 10, raw(value));
}
void GgufBuilder::set_f32(const std::string& key, float value) {
  set_raw(key, 6, raw(value));
}
void GgufBuilder::set_bool(const std::string& key, std::uint8_t value) {
  set_raw(key, 7, raw(value));
}
void GgufBuilder::set_string(const std::string& key, std::string_view value) {
  set_raw(key, 8, encode_string(value));
}

void GgufBuilder::set_strings(const std::string& key, const std::vector<std::string>& values) {
  std::string bytes = raw(std::uint32_t{8}) + raw(static_cast<std::uint64_t>(values.size()));
  for (const std::string& value : values) bytes += encode_string(value);
  set_raw(key, 9, bytes);
}

void GgufBuilder::set_i32s(const std::string& key, const std::vector<std::int32_t>& values) {
  std::string bytes = raw(std::uint32_t{5}) + raw(static_cast<std::uint64_t>(values.size()));
  for (const std::int32_t value : values) bytes += raw(value);
  set_raw(key, 9, bytes);
}

void GgufBuilder::erase(const std::string& key) {
  std::erase_if(keys_, [&](const auto& entry) { return entry.first == key; });
}

void GgufBuilder::add_tensor(const std::string& name, std::vector<std::uint64_t> extents, std::uint32_t type, std::size_t bytes) {
  tensors_.push_back({name, std::move(extents), type, bytes});
}

void GgufBuilder::erase_tensor(const std::string& name) {
  std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
}

GgufBuilder::Tensor& GgufBuilder::tensor(const std::string& name) {
  for (Tensor& tensor : tensors_) {
    if (tensor.name == name) return tensor;
  }
  throw std::logic_error("no tensor " + name);
}

std::vector<std::byte> GgufBuilder::build() const {
  std::string out =
      "GGUF" + raw(version) + raw(static_cast<std::uint64_t>(tensors_.size())) + raw(static_cast<std::uint64_t>(keys_.size()));
  for (const auto& [key, value] : keys_) out += encode_string(key) + value;
  const auto align = [this](std::uint64_t at) { return (at + alignment - 1) / alignment * alignment; };
  std::uint64_t next = 0;
  std::string data;
  for (const Tensor& tensor : tensors_) {
    const std::uint64_t offset = tensor.offset < 0 ? next : static_cast<std::uint64_t>(tensor.offset);
    out += encode_string(tensor.name) + raw(static_cast<std::uint32_t>(tensor.extents.size()));
    for (const std::uint64_t extent : tensor.extents) out += raw(extent);
    out += raw(tensor.type) + raw(offset);
    data.resize(static_cast<std::size_t>(next));
    for (std::size_t i = 0; i < tensor.bytes; ++i) data += static_cast<char>((i * 37 + tensor.name.size()) & 0x3f);
    next = align(data.size());
  }
  out.resize(static_cast<std::size_t>(align(out.size())));
  out += data;
  out.resize(out.size() - std::min(cut_bytes, out.size()));
  std::vector<std::byte> bytes(out.size());
  std::memcpy(bytes.data(), out.data(), out.size());
  return bytes;
}

GgufBuilder tiny_gguf() {
  GgufBuilder file;
  file.set_string("general.architecture", "llama");
  file.set_string("general.name", "Tiny");
  file.set_u32("llama.block_count", 1);
  file.set_u32("llama.context_length", 128);
  file.set_u32("llama.embedding_length", 32);
  file.set_u32("llama.feed_forward_length", 64);
  file.set_u32("llama.attention.head_count", 2);
  file.set_u32("llama.attention.head_count_kv", 1);
  file.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  file.set_f32("llama.rope.freq_base", 500000.0F);
  file.set_string("tokenizer.ggml.model", "gpt2");
  file.set_string("tokenizer.ggml.pre", "llama-bpe");
  file.set_strings("tokenizer.ggml.tokens", {"a", "b", "ab", "c", "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "[PAD]"});
  file.set_i32s("tokenizer.ggml.token_type", {1, 1, 1, 4, 3, 3, 3, 5});
  file.set_strings("tokenizer.ggml.merges", {"a b"});
  file.set_u32("tokenizer.ggml.bos_token_id", 4);
  file.set_u32("tokenizer.ggml.eos_token_id", 5);
  file.set_string("tokenizer.chat_template", "{{ messages[0]['content'] }}");
  file.add_tensor("token_embd.weight", {32, 8}, 8, 8 * 34);           // Q8_0
  file.add_tensor("blk.0.attn_norm.weight", {32}, 0, 128);            // F32
  file.add_tensor("blk.0.attn_q.weight", {32, 32}, 3, 32 * 20);       // Q4_1
  file.add_tensor("blk.0.attn_k.weight", {32, 16}, 2, 16 * 18);       // Q4_0
  file.add_tensor("blk.0.attn_v.weight", {32, 16}, 6, 16 * 22);       // Q5_0
  file.add_tensor("blk.0.attn_output.weight", {32, 32}, 7, 32 * 24);  // Q5_1
  file.add_tensor("blk.0.ffn_norm.weight", {32}, 0, 128);
  file.add_tensor("blk.0.ffn_gate.weight", {32, 64}, 1, 64 * 64);  // F16
  file.add_tensor("blk.0.ffn_up.weight", {32, 64}, 30, 64 * 64);   // BF16
  file.add_tensor("blk.0.ffn_down.weight", {64, 32}, 0, 32 * 64 * 4);
  file.add_tensor("output_norm.weight", {32}, 0, 128);
  return file;
}

}  // namespace lynx::model::testing
