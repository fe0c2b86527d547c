#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pre_tokenizer.h"

#include <pcre2.h>

#include <array>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace lynx::text {
namespace {

// Character classes of the oracle (Hugging Face `tokenizers` 0.23: Unicode 16), whatever Unicode version this PCRE2 has: Debian
// 12's has 14, so letters and numbers that are newer are written out. \s is written out because PCRE2 counts U+180E as white space.
constexpr std::string_view kSpace = R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kLetter =
    R"(\p{L}\x{1c89}-\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}\x{10d4a}-\x{10d65}\x{10d6f}-\x{10d85})"
    R"(\x{10ec2}-\x{10ec4}\x{1123f}-\x{11240}\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7}\x{113d1}\x{113d3})"
    R"(\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f}\x{13441}-\x{13446}\x{13460}-\x{143fa})"
    R"(\x{16100}-\x{1611d}\x{16d40}-\x{16d6c}\x{18cff}\x{1b132}\x{1b155}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d}\x{1e4d0}-\x{1e4eb})"
    R"(\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr std::string_view kNumber =
    R"(\p{N}\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59}\x{16130}-\x{16139}\x{16d70}-\x{16d79})"
    R"(\x{1ccf0}-\x{1ccf9}\x{1d2c0}-\x{1d2d3}\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";

/// White space, of which the last one is left to what follows, unless nothing does: \s+(?!\S)|\s+, `ends` being what is not \S.
std::string spaces_before(std::string_view ends) {
  return fmt::format("[{}]+(?![^{}])|[{}]+", kSpace, ends, kSpace);
}

// The patterns, as the models' tokenizer.json files have them:
//   GPT-2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   SmolLM   each number by itself, then GPT-2's pattern inside what lies between. One pass does the same: white space before a
//            number ends its stretch, so the look-ahead takes a number for an end.
//   Llama 3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   Qwen2    the same with \p{N} for \p{N}{1,3}
std::string pattern_of(PreTokenizer kind) {
  constexpr std::string_view kContraction = "'s|'t|'re|'ve|'m|'ll|'d";
  const std::string number = fmt::format("[{}]", kNumber);
  const std::string letters = fmt::format("[{}]+", kLetter);
  const std::string others = fmt::format("[^{}{}{}]+", kSpace, kLetter, kNumber);
  const auto gpt2 = [&](std::string_view numbers, std::string_view ends) {
    return fmt::format("{}| ?{}|{}| ?{}|{}", kContraction, letters, numbers, others, spaces_before(ends));
  };
  const auto llama3 = [&](std::string_view numbers) {
    return fmt::format(R"((?i:{})|[^\r\n{}{}]?{}|{}| ?{}[\r\n]*|[{}]*[\r\n]+|{})", kContraction, kLetter, kNumber, letters, numbers,
                       others, kSpace, spaces_before(kSpace));
  };
  switch (kind) {
    case PreTokenizer::kGpt2: return gpt2(" ?" + number + "+", kSpace);
    case PreTokenizer::kSmolLm: return gpt2(number, fmt::format("{}{}", kSpace, kNumber));
    case PreTokenizer::kLlama3: return llama3(number + "{1,3}");
    case PreTokenizer::kQwen2: return llama3(number);
  }
  return {};
}

std::string pcre2_message(int error) {
  std::array<PCRE2_UCHAR, 160> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

using CodePointer = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>>;

// No pattern here nests, so matching needs little stack whatever the text; a stack of our own makes that independent of the
// thread's.
constexpr std::size_t kJitStackStart = 32 * 1024;
constexpr std::size_t kJitStackMost = 512 * 1024;

}  // namespace

struct PieceSplitter::Code {
  CodePointer code;
};

struct PieceScanner::State {
  std::shared_ptr<const PieceSplitter::Code> code;
  MatchData match;
  MatchContext context;
  JitStack stack;
  std::string_view text;
  std::size_t position = 0;
};

Result<PieceSplitter> PieceSplitter::create(PreTokenizer kind) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::string pattern = pattern_of(kind);
  CodePointer code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr));
  if (!code) return internal_error(fmt::format("pre-tokenizer pattern, at {}: {}", offset, pcre2_message(error)));
  // Where there is no JIT (no support, or no executable memory), pcre2_match interprets: slower, the same pieces.
  static_cast<void>(pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE));
  auto owned = std::make_shared<Code>();
  owned->code = std::move(code);
  return PieceSplitter(std::move(owned));
}

PieceScanner::PieceScanner(std::unique_ptr<State> state) : state_(std::move(state)) {}
PieceScanner::PieceScanner(PieceScanner&&) noexcept = default;
PieceScanner& PieceScanner::operator=(PieceScanner&&) noexcept = default;
PieceScanner::~PieceScanner() = default;

Result<PieceScanner> PieceScanner::create(const PieceSplitter& splitter) {
  auto state = std::make_unique<State>();
  state->code = splitter.code_;
  state->match.reset(pcre2_match_data_create(1, nullptr));
  state->context.reset(pcre2_match_context_create(nullptr));
  state->stack.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMost, nullptr));
  if (!state->match || !state->context) return resource_exhausted("no memory for the pre-tokenizer");
  if (state->stack) pcre2_jit_stack_assign(state->context.get(), nullptr, state->stack.get());
  // The default limit counts backtracking steps, of which a long run of white space needs one a character; the patterns are linear.
  pcre2_set_match_limit(state->context.get(), std::numeric_limits<std::uint32_t>::max());
  return PieceScanner(std::move(state));
}

void PieceScanner::start(std::string_view text) {
  state_->text = text;
  state_->position = 0;
}

Result<std::string_view> PieceScanner::next() {
  State& state = *state_;
  const std::size_t begin = state.position;
  if (begin == state.text.size()) return std::string_view{};
  const int result = pcre2_match(state.code->code.get(), reinterpret_cast<PCRE2_SPTR>(state.text.data()), state.text.size(), begin,
                                 PCRE2_NO_UTF_CHECK, state.match.get(), state.context.get());
  if (result < 0) return internal_error(fmt::format("pre-tokenizer, at byte {}: {}", begin, pcre2_message(result)));
  const std::size_t end = pcre2_get_ovector_pointer(state.match.get())[1];
  if (end <= begin) return internal_error(fmt::format("pre-tokenizer, at byte {}: empty piece", begin));
  state.position = end;
  return state.text.substr(begin, end - begin);
}

}  // namespace lynx::text
