#include "tests/text/vocab_file.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace lynx::text::test {
namespace {

constexpr std::uint32_t kBool = 7;
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;

/// Reads little-endian values until the data ends; then everything is zero and ok() false.
class Reader {
 public:
  explicit Reader(std::string_view data) : rest_(data) {}

  template <class T>
  T number() {
    T value{};
    const std::string_view bytes = take(sizeof(T));
    if (ok_) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string_view string() { return take(number<std::uint64_t>()); }
  std::string_view take(std::uint64_t size) {
    ok_ = ok_ && size <= rest_.size();
    if (!ok_) return {};
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  bool ok() const { return ok_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

/// What a tokenizer needs of GGUF's values: strings, and integers of any width.
struct Value {
  std::vector<std::string_view> strings;
  std::vector<std::int64_t> integers;
};

void read_scalar(Reader& reader, std::uint32_t type, Value& value) {
  constexpr std::size_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  if (type == kString) {
    value.strings.push_back(reader.string());
    return;
  }
  std::int64_t integer = 0;
  const std::string_view bytes = reader.take(type < std::size(kWidths) ? kWidths[type] : ~std::uint64_t{0});
  std::memcpy(&integer, bytes.data(), bytes.size());
  value.integers.push_back(integer);
}

std::map<std::string, Value, std::less<>> read_metadata(Reader& reader) {
  std::map<std::string, Value, std::less<>> metadata;
  reader.take(16);  // Magic, version, tensor count.
  const auto entries = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < entries && reader.ok(); ++i) {
    Value& value = metadata[std::string(reader.string())];
    auto type = reader.number<std::uint32_t>();
    std::uint64_t count = 1;
    if (type == kArray) {
      type = reader.number<std::uint32_t>();
      count = reader.number<std::uint64_t>();
    }
    for (std::uint64_t k = 0; k < count && reader.ok(); ++k) read_scalar(reader, type, value);
  }
  return metadata;
}

TokenizerSpec::TokenKind kind_of(std::int64_t gguf_type) {
  switch (gguf_type) {
    case 3: return TokenizerSpec::TokenKind::kControl;
    case 4: return TokenizerSpec::TokenKind::kUserDefined;
    case 5: return TokenizerSpec::TokenKind::kUnused;
    default: return TokenizerSpec::TokenKind::kNormal;
  }
}

Status set_family(std::string_view name, TokenizerSpec& spec) {
  if (name == "gpt-2") {
    spec.pre_tokenizer = PreTokenizer::kGpt2;
  } else if (name == "smollm") {
    spec.pre_tokenizer = PreTokenizer::kSmolLm;
  } else if (name == "llama-bpe") {
    spec.pre_tokenizer = PreTokenizer::kLlama3;
    spec.ignore_merges = true;
  } else if (name == "qwen2") {
    spec.pre_tokenizer = PreTokenizer::kQwen2;
    spec.normalizer = Normalizer::kNfc;
  } else {
    return unimplemented(fmt::format("pre-tokenizer {}", name));
  }
  return {};
}

}  // namespace

Result<TokenizerSpec> read_gguf_vocabulary(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found(fmt::format("{}: not there (scripts/test.sh and scripts/fetch_test_vocabs.sh fetch it)", path));
  const std::string data{std::istreambuf_iterator<char>(file), {}};
  Reader reader(data);
  auto metadata = read_metadata(reader);
  const auto& pre = metadata["tokenizer.ggml.pre"].strings;
  const auto& texts = metadata["tokenizer.ggml.tokens"].strings;
  const auto& kinds = metadata["tokenizer.ggml.token_type"].integers;
  if (!reader.ok() || pre.size() != 1 || texts.empty() || texts.size() != kinds.size()) {
    return invalid_argument(fmt::format("{}: no vocabulary", path));
  }
  TokenizerSpec spec;
  LYNX_RETURN_IF_ERROR(set_family(pre[0], spec));
  for (std::size_t i = 0; i < texts.size(); ++i) spec.tokens.push_back({.text = std::string(texts[i]), .kind = kind_of(kinds[i])});
  for (const std::string_view merge : metadata["tokenizer.ggml.merges"].strings) {
    const std::size_t space = merge.find(' ', 1);
    spec.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  const auto id = [&](const char* key) {
    const auto found = metadata.find(fmt::format("tokenizer.ggml.{}", key));
    return found == metadata.end() ? -1 : static_cast<std::int32_t>(found->second.integers.at(0));
  };
  spec.bos = id("bos_token_id");
  spec.eos = id("eos_token_id");
  return spec;
}

std::string default_model_path() {
  const char* path = std::getenv("LYNX_TEST_MODEL");
  return path != nullptr ? path : ".models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

std::string fetched_vocabulary_path(const std::string& name) {
  return fmt::format(".cache/vocabs/ggml-vocab-{}.gguf", name);
}

}  // namespace lynx::text::test
