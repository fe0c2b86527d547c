#include "server/inference_response.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace lynx::server {
namespace {

constexpr std::size_t kEchoBytes = std::size_t{256} << 10;  ///< Of text in one message.
constexpr std::size_t kEchoScores = 4096;                   ///< Log probabilities in one message, alternatives included.

/// At most `most` bytes from the beginning of valid UTF-8, and no half character.
std::string_view prefix(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;
  return text.substr(0, most);
}

/// The part in pieces: first the text, then the tokens.
std::vector<ChoicePart> split(const ChoicePart& part, std::size_t scores_per_token) {
  std::vector<ChoicePart> pieces;
  for (std::string_view rest = part.text; !rest.empty();) {
    const std::string_view text = prefix(rest, kEchoBytes);
    rest.remove_prefix(text.size());
    pieces.push_back({.text = std::string(text)});
  }
  const std::size_t step = std::max<std::size_t>(1, kEchoScores / scores_per_token);
  for (std::size_t from = 0; from < part.tokens.size(); from += step) {
    const std::size_t to = std::min(from + step, part.tokens.size());
    ChoicePart& piece = pieces.emplace_back();
    piece.tokens.assign(part.tokens.begin() + static_cast<std::ptrdiff_t>(from),
                        part.tokens.begin() + static_cast<std::ptrdiff_t>(to));
    piece.text_offsets.assign(part.text_offsets.begin() + static_cast<std::ptrdiff_t>(from),
                              part.text_offsets.begin() + static_cast<std::ptrdiff_t>(to));
    piece.unscored_tokens = from == 0 ? part.unscored_tokens : 0;
  }
  return pieces;
}

}  // namespace

void fill_choice(const ChoicePart& part, bool with_logprobs, const text::Tokenizer& tokenizer, v1::ChoiceDelta* out) {
  out->set_index(part.index);
  out->set_text(part.text);
  for (std::size_t i = 0; i < part.tokens.size(); ++i) {
    const TokenOutput& token = part.tokens[i];
    v1::Token* added = out->add_tokens();
    added->set_id(token.id);
    if (!with_logprobs) continue;
    added->set_piece(std::string(tokenizer.token_bytes(token.id)));
    if (i < part.text_offsets.size()) added->set_text_offset(part.text_offsets[i]);
    if (static_cast<int>(i) < part.unscored_tokens) continue;
    added->set_logprob(finite_logprob(token.logprob));
    for (const model::TokenLogprob& candidate : token.top) {
      v1::TopLogprob* top = added->add_top_logprobs();
      top->set_id(candidate.token);
      top->set_logprob(finite_logprob(candidate.logprob));
      top->set_piece(std::string(tokenizer.token_bytes(candidate.token)));
    }
  }
  if (part.finish) {
    out->set_finish_reason(*part.finish == FinishReason::kStop ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
  }
  if (part.provisional) {
    v1::Provisional* drafts = out->mutable_provisional();
    drafts->mutable_tokens()->Add(part.provisional->tokens.begin(), part.provisional->tokens.end());
    drafts->set_text(part.provisional->text);
  }
}

void fill_usage(const Usage& usage, v1::Usage* out) {
  out->set_prompt_tokens(usage.prompt_tokens);
  out->set_completion_tokens(usage.completion_tokens);
  out->set_cached_tokens(usage.cached_tokens);
}

v1::Transfer transfer_value(TransferMode mode) {
  switch (mode) {
    case TransferMode::kBf16: return v1::TRANSFER_BF16;
    case TransferMode::kLossless: return v1::TRANSFER_LOSSLESS;
    case TransferMode::kInt8: return v1::TRANSFER_INT8;
    case TransferMode::kInt4: return v1::TRANSFER_INT4;
    case TransferMode::kProgressiveInt8: return v1::TRANSFER_PROGRESSIVE_INT8;
    case TransferMode::kProgressiveExact: return v1::TRANSFER_PROGRESSIVE_EXACT;
  }
  return v1::TRANSFER_UNSPECIFIED;
}

void fill_receipt(const Receipt& receipt, v1::Receipt* out) {
  if (receipt.transfer) out->set_transfer(transfer_value(*receipt.transfer));
  switch (receipt.verified) {
    case FullView::kExact: out->set_verified(v1::VIEW_EXACT); break;
    case FullView::kInt8: out->set_verified(v1::VIEW_INT8); break;
    case FullView::kAnchor: out->set_verified(v1::VIEW_ANCHOR); break;
  }
  out->set_gap(receipt.gap == GapMode::kDraft ? v1::GAP_DRAFT : v1::GAP_WAIT);
  out->set_drafted(receipt.drafted);
  out->set_accepted(receipt.accepted);
  out->set_rolled_back(receipt.rolled_back);
  out->set_first_bytes(receipt.first_bytes);
  out->set_residual_bytes(receipt.residual_bytes);
  const auto reached = [out](double seconds, void (v1::Receipt::*set)(double)) {
    if (seconds >= 0) (out->*set)(seconds);
  };
  reached(receipt.first_token_s, &v1::Receipt::set_first_token_s);
  reached(receipt.anchors_s, &v1::Receipt::set_anchors_s);
  reached(receipt.cache_s, &v1::Receipt::set_cache_s);
  reached(receipt.verified_s, &v1::Receipt::set_verified_s);
  reached(receipt.second_token_s, &v1::Receipt::set_second_token_s);
}

std::vector<v1::GenerateResponse> echo_messages(const GenerationPlan& plan, const std::vector<TokenOutput>& tokens,
                                                const text::Tokenizer& tokenizer) {
  const EncodedPrompt& prompt = plan.prompts.front();
  ChoicePart whole =
      echo_part(prompt.text, plan.with_logprobs ? tokens : std::vector<TokenOutput>{}, prompt.hidden_bos_tokens, tokenizer);
  whole.text = valid_utf8(std::move(whole.text));
  const std::size_t scores = whole.tokens.empty() ? 1 : whole.tokens.back().top.size() + 1;
  std::vector<v1::GenerateResponse> messages;
  for (ChoicePart& piece : split(whole, scores)) {
    for (piece.index = 0; piece.index < plan.choices_per_prompt; ++piece.index) {
      fill_choice(piece, plan.with_logprobs, tokenizer, messages.emplace_back().add_choices());
    }
  }
  return messages;
}

std::string valid_utf8(std::string text) {
  if (!text::find_invalid_utf8(text)) return text;
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const text::Utf8Step step = text::decode_utf8(rest);
    if (step.kind == text::Utf8Step::Kind::kValid) {
      out += rest.substr(0, step.length);
    } else {
      text::append_utf8(out, U'\uFFFD');
    }
    rest.remove_prefix(step.length);
  }
  return out;
}

}  // namespace lynx::server
