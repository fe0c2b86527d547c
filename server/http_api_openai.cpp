// The routes of HttpApi that need the model.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/http_api.h"
#include "server/openai_fields.h"

namespace lynx::server {
namespace {

Json model_card(const ServingBackend& backend, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", backend.created},
          {"owned_by", "lynx"},
          {"root", backend.limits.model_names.front()},
          {"max_model_len", backend.limits.max_model_len}};
}

}  // namespace

void HttpApi::models(const HttpRequest&, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  Json list = Json::array();
  for (const std::string& name : backend.limits.model_names) list.push_back(model_card(backend, name));
  call->respond_json(dump_json({{"object", "list"}, {"data", std::move(list)}}));
}

void HttpApi::model(const HttpRequest& request, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  const std::string name = request.path.substr(kModelPrefix.size());
  if (auto error = check_model({{"model", name}}, backend.limits)) return call->respond_error(*error);
  call->respond_json(dump_json(model_card(backend, name)));
}

void HttpApi::completions(const HttpRequest& request, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  auto json = parse_json_object(request.body);
  if (!json.ok()) return call->respond_error(json.error());
  auto plan = plan_completion(json.value(), backend, call->request_id());
  if (!plan.ok()) return call->respond_error(plan.error());
  start_generation(std::move(plan.value()), call, backend);
}

void HttpApi::chat_completions(const HttpRequest& request, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  auto json = parse_json_object(request.body);
  if (!json.ok()) return call->respond_error(json.error());
  auto plan = plan_chat(json.value(), backend, call->request_id());
  if (!plan.ok()) return call->respond_error(plan.error());
  start_generation(std::move(plan.value()), call, backend);
}

void HttpApi::start_generation(GenerationPlan plan, const CallPtr& call, const ServingBackend& backend) {
  auto shared = std::make_shared<GenerationPlan>(std::move(plan));
  server_.io().post([this, shared, call, &backend] {
    if (sessions_.size() >= sweep_at_) {
      std::erase_if(sessions_, [](const auto& weak) { return weak.expired(); });
      sweep_at_ = kFirstSweep + 2 * sessions_.size();
    }
    sessions_.push_back(GenerationSession::start(std::move(*shared), call, *backend.engine, server_.io(), *backend.text.tokenizer));
  });
}

void HttpApi::abort_generations() {
  server_.io().post([this] {
    for (const auto& weak : sessions_) {
      if (auto session = weak.lock()) session->fail(plain_error(503, "the server is shutting down", "draining"));
    }
  });
}

void HttpApi::tokenize(const HttpRequest& request, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  auto json = parse_json_object(request.body);
  if (!json.ok()) return call->respond_error(json.error());
  FieldReader reader(json.value());
  const bool with_strings = reader.boolean("return_token_strs").value_or(false);
  if (reader.error()) return call->respond_error(*reader.error());
  auto encoded = encode_for_tokenize(json.value(), backend);
  if (!encoded.ok()) return call->respond_error(encoded.error());
  Json body = {{"count", encoded->tokens.size()},
               {"max_model_len", backend.limits.max_model_len},
               {"tokens", encoded->tokens},
               {"token_strs", nullptr}};
  if (with_strings) {
    Json strings = Json::array();
    for (const std::int32_t id : encoded->tokens) strings.push_back(std::string(backend.text.tokenizer->token_bytes(id)));
    body["token_strs"] = std::move(strings);
  }
  call->respond_json(dump_json(body));
}

void HttpApi::detokenize(const HttpRequest& request, const CallPtr& call) {
  const ServingBackend& backend = *backend_.load();
  auto json = parse_json_object(request.body);
  if (!json.ok()) return call->respond_error(json.error());
  if (auto error = check_model(json.value(), backend.limits)) return call->respond_error(*error);
  FieldReader reader(json.value());
  if (reader.find("tokens") == nullptr) reader.fail("tokens", "'tokens' is required");
  const auto tokens = reader.token_ids("tokens", backend.limits.vocabulary);
  if (reader.error()) return call->respond_error(*reader.error());
  call->respond_json(dump_json({{"prompt", backend.text.tokenizer->decode(tokens, false)}}));
}

void HttpApi::tokenizer_info(const HttpRequest&, const CallPtr& call) {
  const text::Tokenizer& tokenizer = *backend_.load()->text.tokenizer;
  const auto special = [&](std::int32_t id) { return id < 0 ? Json(nullptr) : Json(std::string(tokenizer.token_bytes(id))); };
  call->respond_json(dump_json({{"eos_token", special(tokenizer.eos())},
                                {"bos_token", special(tokenizer.bos())},
                                {"add_bos_token", tokenizer.add_bos()},
                                {"vocab_size", tokenizer.vocabulary()}}));
}

}  // namespace lynx::server
