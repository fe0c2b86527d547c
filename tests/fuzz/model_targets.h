#pragma once

// What is fuzzed of the model loaders. Each function takes untrusted bytes and returns what is wrong with the reader: an accepted
// file whose promises do not hold. Empty = all is well. libFuzzer and the mutation test share them.

#include <cstddef>
#include <span>
#include <string>

namespace lynx::fuzz {

/// A whole GGUF file, through shape, tensors and tokenizer.
std::string try_gguf(std::span<const std::byte> bytes);
/// One safetensors file.
std::string try_safetensors(std::span<const std::byte> bytes);
/// config.json.
std::string try_hf_config(std::span<const std::byte> bytes);
/// tokenizer.json, then the same bytes as tokenizer_config.json.
std::string try_hf_tokenizer(std::span<const std::byte> bytes);
/// A plane profile.
std::string try_plane_profile(std::span<const std::byte> bytes);
/// model.safetensors.index.json names and JSON in general.
std::string try_json(std::span<const std::byte> bytes);

}  // namespace lynx::fuzz
