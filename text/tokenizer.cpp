#include "text/tokenizer.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_table.h"
#include "text/utf8.h"

namespace lynx::text {
namespace {

using Kind = TokenizerSpec::TokenKind;

constexpr std::size_t kMaxTokens = std::size_t{1} << 24;

Status check_spec(const TokenizerSpec& spec) {
  if (spec.tokens.empty()) return invalid_argument("the vocabulary is empty");
  if (spec.tokens.size() > kMaxTokens) return invalid_argument(fmt::format("{} tokens are too many", spec.tokens.size()));
  const std::pair<const char*, std::int32_t> ids[] = {
      {"bos", spec.bos}, {"eos", spec.eos}, {"padding", spec.pad}, {"unknown", spec.unknown}};
  for (const auto& [name, id] : ids) {
    if (id < -1 || id >= static_cast<std::int64_t>(spec.tokens.size())) {
      return invalid_argument(fmt::format("{} token id {} is outside the vocabulary of {}", name, id, spec.tokens.size()));
    }
  }
  return {};
}

/// The bytes of all ids. What BPE can reach is indexed: normal tokens, and user-defined ones where no normal token has the same
/// bytes.
TokenTable make_token_table(const TokenizerSpec& spec) {
  TokenTable table(spec.tokens.size());
  std::vector<bool> spelled(spec.tokens.size());
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenizerSpec::Token& token = spec.tokens[id];
    if (token.kind == Kind::kNormal) {
      // Like `tokenizers`, take a token outside the byte alphabet literally; text cannot become such a token.
      const auto bytes = bytes_of_spelling(token.text);
      spelled[id] = bytes.has_value();
      table.append(bytes ? *bytes : token.text);
    } else {
      table.append(token.kind == Kind::kUnused ? std::string_view{} : token.text);
    }
  }
  for (const Kind kind : {Kind::kUserDefined, Kind::kNormal}) {
    for (std::int32_t id = 0; id < table.size(); ++id) {
      const auto at = static_cast<std::size_t>(id);
      if (spec.tokens[at].kind == kind && (kind == Kind::kUserDefined || spelled[at]) && !table.bytes_of(id).empty())
        table.index(id);
    }
  }
  return table;
}

}  // namespace

struct Tokenizer::Impl {
  Impl(const TokenizerSpec& spec, TokenTable token_table, AddedTokens added_tokens, PieceSplitter piece_splitter)
      : tokens(std::move(token_table)), added(std::move(added_tokens)), splitter(std::move(piece_splitter)) {
    normalizer = spec.normalizer;
    bos = spec.bos;
    eos = spec.eos;
    add_bos = spec.add_bos;
    control.reserve(spec.tokens.size());
    for (const auto& token : spec.tokens) control.push_back(token.kind == Kind::kControl);
  }

  Status encode_stretch(std::string_view stretch, PieceScanner& scanner, BpeScratch& scratch, std::vector<std::int32_t>& out) const;

  TokenTable tokens;
  AddedTokens added;
  PieceSplitter splitter;
  std::optional<BytePairEncoder> bpe;
  Normalizer normalizer = Normalizer::kNone;
  std::vector<bool> control;
  std::int32_t bos = -1;
  std::int32_t eos = -1;
  bool add_bos = false;
};

/// A stretch of text without special tokens in it.
Status Tokenizer::Impl::encode_stretch(std::string_view stretch, PieceScanner& scanner, BpeScratch& scratch,
                                       std::vector<std::int32_t>& out) const {
  std::string normalized;
  if (normalizer == Normalizer::kNfc && !is_trivially_nfc(stretch)) {
    LYNX_TRY(normalized, to_nfc(stretch));
    stretch = normalized;
  }
  scanner.start(stretch);
  for (;;) {
    LYNX_TRY(const std::string_view piece, scanner.next());
    if (piece.empty()) return {};
    bpe->encode(piece, scratch, out);
  }
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::create(const TokenizerSpec& spec) {
  LYNX_RETURN_IF_ERROR(check_spec(spec));
  LYNX_TRY(AddedTokens added, AddedTokens::create(spec));
  LYNX_TRY(PieceSplitter splitter, PieceSplitter::create(spec.pre_tokenizer));
  auto impl = std::make_unique<Impl>(spec, make_token_table(spec), std::move(added), std::move(splitter));
  LYNX_TRY(impl->bpe, BytePairEncoder::create(spec, impl->tokens));
  return Tokenizer(std::move(impl));
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text, bool parse_special) const {
  if (text.size() > kMaxTextBytes) return resource_exhausted(fmt::format("a text of {} bytes is too long", text.size()));
  if (const auto offset = find_invalid_utf8(text)) return invalid_argument(fmt::format("invalid UTF-8 at byte {}", *offset));
  LYNX_TRY(PieceScanner scanner, PieceScanner::create(impl_->splitter));
  BpeScratch scratch;
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  std::size_t position = 0;
  while (position < text.size()) {
    const auto match = impl_->added.find(text, position, parse_special);
    const std::size_t end = match ? match->begin : text.size();
    if (end > position) LYNX_RETURN_IF_ERROR(impl_->encode_stretch(text.substr(position, end - position), scanner, scratch, ids));
    if (!match) break;
    ids.push_back(match->id);
    position = match->end;
  }
  return ids;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  if (id < 0 || id >= impl_->tokens.size()) return {};
  return impl_->tokens.bytes_of(id);
}

bool Tokenizer::is_control(std::int32_t id) const {
  return id >= 0 && id < impl_->tokens.size() && impl_->control[static_cast<std::size_t>(id)];
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    if (!skip_special || !is_control(id)) bytes.append(token_bytes(id));
  }
  return bytes;
}

int Tokenizer::vocabulary() const {
  return impl_->tokens.size();
}

std::int32_t Tokenizer::bos() const {
  return impl_->bos;
}

std::int32_t Tokenizer::eos() const {
  return impl_->eos;
}

bool Tokenizer::add_bos() const {
  return impl_->add_bos;
}

}  // namespace lynx::text
