// libFuzzer: a tokenizer made from the input's first part encodes the rest. Whatever both are, encode() answers, and decode() gives
// the text back (all bytes have a token here); stop matching and UTF-8 assembly do not depend on how the bytes are split.

#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "text/utf8_assembler.h"

namespace {

using namespace lynx::text;  // NOLINT(google-build-using-namespace)

void require(bool condition) {
  if (!condition) std::abort();
}

TokenizerSpec make_spec(FuzzedDataProvider& data) {
  TokenizerSpec spec;
  spec.pre_tokenizer = static_cast<PreTokenizer>(data.ConsumeIntegralInRange(0, 3));
  spec.ignore_merges = data.ConsumeBool();
  spec.normalizer = data.ConsumeBool() ? Normalizer::kNfc : Normalizer::kNone;
  for (int byte = 0; byte < 256; ++byte)
    spec.tokens.push_back({.text = spelling_of_bytes(std::string(1, static_cast<char>(byte)))});
  for (int i = data.ConsumeIntegralInRange(0, 60); i > 0; --i) {
    // The texts are copied: the merged token is appended to the list that they are part of.
    const std::string left = spec.tokens[data.ConsumeIntegralInRange<std::size_t>(0, spec.tokens.size() - 1)].text;
    const std::string right = spec.tokens[data.ConsumeIntegralInRange<std::size_t>(0, spec.tokens.size() - 1)].text;
    spec.merges.emplace_back(left, right);
    spec.tokens.push_back({.text = left + right});
  }
  for (int i = data.ConsumeIntegralInRange(0, 4); i > 0; --i) {
    const bool control = data.ConsumeBool();
    spec.tokens.push_back({.text = data.ConsumeRandomLengthString(8),
                           .kind = control ? TokenizerSpec::TokenKind::kControl : TokenizerSpec::TokenKind::kUserDefined});
  }
  return spec;
}

void check_tokenizer(FuzzedDataProvider& data, const std::string& input) {
  const TokenizerSpec spec = make_spec(data);
  const auto tokenizer = Tokenizer::create(spec);
  if (!tokenizer.ok()) return;
  const std::string text = data.ConsumeRandomLengthString(4096) + input;
  const auto ids = tokenizer->encode(text, data.ConsumeBool());
  require(ids.ok() == !find_invalid_utf8(text).has_value());
  if (!ids.ok()) return;
  const std::string back = tokenizer->decode(*ids, false);
  if (spec.normalizer == Normalizer::kNone) {
    require(back == text);
  } else {
    require(*to_nfc(back) == *to_nfc(text));  // Parts are composed apart where a special token stands between them.
  }
}

void check_output(FuzzedDataProvider& data, const std::string& input) {
  std::vector<std::string> stops;
  for (int i = data.ConsumeIntegralInRange(0, 4); i > 0; --i) stops.push_back(data.ConsumeRandomLengthString(6) + "x");
  const auto compiled = StopStrings::create(stops);
  require(compiled.ok());
  Utf8Assembler whole;
  std::string text = whole.push(input);
  text += whole.finish();
  require(!find_invalid_utf8(text).has_value());
  StopMatcher at_once(*compiled);
  std::string wanted = at_once.feed(text).text;
  wanted += at_once.flush();

  Utf8Assembler assembler;
  StopMatcher matcher(*compiled);
  std::string released;
  for (std::size_t at = 0; at < input.size();) {
    const std::string piece = input.substr(at, data.ConsumeIntegralInRange<std::size_t>(1, 9));
    at += piece.size();
    released += matcher.feed(assembler.push(piece)).text;
  }
  released += matcher.feed(assembler.finish()).text;
  released += matcher.flush();
  require(released == wanted);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  if (data.ConsumeBool()) {
    const std::string input = data.ConsumeRandomLengthString(4096);
    check_output(data, input);
  } else {
    check_tokenizer(data, data.ConsumeRandomLengthString(64));
  }
  return 0;
}
