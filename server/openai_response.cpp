#include "server/openai_response.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "text/utf8.h"

namespace lynx::server {
namespace {

constexpr float kLogprobFloor = -9999.0F;

/// Tokens that are a piece of a character are spelled as OpenAI does: escaped bytes.
std::string token_name(std::string_view bytes, std::string_view prefix) {
  if (!text::find_invalid_utf8(bytes)) return std::string(bytes);
  std::string name(prefix);
  for (const char c : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

Json bytes_of(std::string_view bytes) {
  Json array = Json::array();
  for (const char c : bytes) array.push_back(static_cast<unsigned char>(c));
  return array;
}

Json finish_json(const std::optional<FinishReason>& finish) {
  if (!finish) return nullptr;
  return *finish == FinishReason::kStop ? "stop" : "length";
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json receipt_json(const Receipt& receipt) {
  const auto reached = [](double seconds) { return seconds < 0 ? Json(nullptr) : Json(seconds); };
  return {{"transfer", receipt.transfer ? Json(transfer_mode_name(*receipt.transfer)) : Json(nullptr)},
          {"verified", full_view_name(receipt.verified)},
          {"gap", gap_mode_name(receipt.gap)},
          {"drafted", receipt.drafted},
          {"accepted", receipt.accepted},
          {"rolled_back", receipt.rolled_back},
          {"bytes", {{"first", receipt.first_bytes}, {"residual", receipt.residual_bytes}}},
          {"first_token_s", reached(receipt.first_token_s)},
          {"anchors_s", reached(receipt.anchors_s)},
          {"cache_s", reached(receipt.cache_s)},
          {"verified_s", reached(receipt.verified_s)},
          {"second_token_s", reached(receipt.second_token_s)}};
}

Json envelope(const ResponseHead& head, const char* object, Json choices) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}, {"choices", std::move(choices)}};
}

const char* chunk_object(const ResponseHead& head) {
  return head.chat ? "chat.completion.chunk" : "text_completion";
}

}  // namespace

float finite_logprob(float value) {
  return std::isfinite(value) && value > kLogprobFloor ? value : kLogprobFloor;
}

void ChoicePart::append(ChoicePart part) {
  if (tokens.empty()) unscored_tokens = part.unscored_tokens;
  text += part.text;
  tokens.insert(tokens.end(), std::make_move_iterator(part.tokens.begin()), std::make_move_iterator(part.tokens.end()));
  text_offsets.insert(text_offsets.end(), part.text_offsets.begin(), part.text_offsets.end());
  if (part.finish) finish = part.finish;
}

Json chat_logprobs(std::span<const TokenOutput> tokens, const text::Tokenizer& tokenizer) {
  const auto entry = [&](std::int32_t id, float logprob) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    return Json{{"token", token_name(bytes, "")}, {"logprob", finite_logprob(logprob)}, {"bytes", bytes_of(bytes)}};
  };
  Json content = Json::array();
  for (const TokenOutput& token : tokens) {
    Json item = entry(token.id, token.logprob);
    item["top_logprobs"] = Json::array();
    for (const auto& top : token.top) item["top_logprobs"].push_back(entry(top.token, top.logprob));
    content.push_back(std::move(item));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs(const ChoicePart& part, const text::Tokenizer& tokenizer) {
  const auto name = [&](std::int32_t id) { return token_name(tokenizer.token_bytes(id), "bytes:"); };
  Json tokens = Json::array();
  Json scores = Json::array();
  Json tops = Json::array();
  for (std::size_t i = 0; i < part.tokens.size(); ++i) {
    const TokenOutput& token = part.tokens[i];
    tokens.push_back(name(token.id));
    if (static_cast<int>(i) < part.unscored_tokens) {
      scores.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    scores.push_back(finite_logprob(token.logprob));
    Json top = Json::object();
    // Best first; tokens that print alike share a key, and the likelier one keeps it.
    for (const auto& candidate : token.top) top.emplace(name(candidate.token), finite_logprob(candidate.logprob));
    top[name(token.id)] = finite_logprob(token.logprob);
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(scores)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", part.text_offsets}};
}

Json unary_body(const ResponseHead& head, const std::vector<ChoicePart>& choices, const Usage& usage, bool with_logprobs,
                const text::Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const ChoicePart& choice : choices) {
    Json item = {{"index", choice.index}};
    if (head.chat) {
      item["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
    } else {
      item["text"] = choice.text;
    }
    item["logprobs"] = nullptr;
    if (with_logprobs) {
      item["logprobs"] = head.chat ? chat_logprobs(choice.tokens, tokenizer) : completion_logprobs(choice, tokenizer);
    }
    item["finish_reason"] = finish_json(choice.finish);
    list.push_back(std::move(item));
  }
  Json body = envelope(head, head.chat ? "chat.completion" : "text_completion", std::move(list));
  body["usage"] = usage_json(usage);
  return body;
}

std::string sse_event(const Json& json) {
  return "data: " + dump_json(json) + "\n\n";
}

Json role_chunk(const ResponseHead& head, int index) {
  return envelope(head, chunk_object(head),
                  Json::array({{{"index", index},
                                {"delta", {{"role", "assistant"}, {"content", ""}}},
                                {"logprobs", nullptr},
                                {"finish_reason", nullptr}}}));
}

Json delta_chunk(const ResponseHead& head, const ChoicePart& part, bool with_logprobs, const text::Tokenizer& tokenizer) {
  Json item = {{"index", part.index}};
  if (head.chat) {
    item["delta"] = Json::object();
    if (!part.finish) item["delta"]["content"] = part.text;
  } else {
    item["text"] = part.text;
  }
  item["logprobs"] = nullptr;
  if (with_logprobs && !part.tokens.empty()) {
    item["logprobs"] = head.chat ? chat_logprobs(part.tokens, tokenizer) : completion_logprobs(part, tokenizer);
  }
  item["finish_reason"] = finish_json(part.finish);
  Json chunk = envelope(head, chunk_object(head), Json::array({std::move(item)}));
  if (part.provisional) {
    const Json drafts = {{"index", part.index}, {"tokens", part.provisional->tokens}, {"text", part.provisional->text}};
    chunk["lynx"]["provisional"] = Json::array({drafts});
  }
  return chunk;
}

Json usage_chunk(const ResponseHead& head, const Usage& usage) {
  Json chunk = empty_chunk(head);
  chunk["usage"] = usage_json(usage);
  return chunk;
}

Json empty_chunk(const ResponseHead& head) {
  return envelope(head, chunk_object(head), Json::array());
}

Json lynx_receipts(const std::vector<Receipt>& receipts) {
  if (receipts.size() == 1) return {{"receipt", receipt_json(receipts.front())}};
  Json list = Json::array();
  for (const Receipt& receipt : receipts) list.push_back(receipt_json(receipt));
  return {{"receipts", std::move(list)}};
}

std::int32_t count_code_points(std::string_view text) {
  std::int32_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  return count;
}

ChoicePart echo_part(const std::string& text, const std::vector<TokenOutput>& tokens, int hidden,
                     const text::Tokenizer& tokenizer) {
  ChoicePart part;
  part.text = text;
  part.tokens = tokens;
  part.unscored_tokens = tokens.empty() ? 0 : 1;
  std::int32_t offset = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    part.text_offsets.push_back(offset);
    if (static_cast<int>(i) >= hidden) offset += count_code_points(tokenizer.token_bytes(tokens[i].id));
  }
  return part;
}

}  // namespace lynx::server
