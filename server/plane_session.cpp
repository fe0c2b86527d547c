#include "server/plane_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "model/mapped_file.h"
#include "model/model_file.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace lynx::server {
namespace {

Result<PlaneText> read_text(const std::string& path, const text::Tokenizer& tokenizer, int most_tokens) {
  LYNX_TRY(const auto file, model::MappedFile::open(path));
  if (text::find_invalid_utf8(file.text())) return invalid_argument(fmt::format("{}: not valid UTF-8", path));
  auto tokens = tokenizer.encode(file.text(), true);
  if (!tokens.ok()) return tokens.status().with_context(path);
  const int count = static_cast<int>(tokens->size());
  if (quant::coded_blocks(count) == 0) {
    return invalid_argument(fmt::format("{}: {} tokens travel raw; planes begin with {}", path, count, kv::kBlockTokens + 1));
  }
  if (count > most_tokens) {
    return invalid_argument(
        fmt::format("{}: {} tokens and the continuation do not fit into the model's context, {} would", path, count, most_tokens));
  }
  return PlaneText{path, std::move(tokens).value()};
}

}  // namespace

Result<PlaneSession> PlaneSession::open(const PlaneToolOptions& options) {
  PlaneSession session;
  LYNX_TRY(session.isa, choose_isa(options.isa));
  LYNX_TRY(auto file, model::ModelFile::open(options.model));
  auto tokenizer = text::Tokenizer::create(file->tokenizer());
  if (!tokenizer.ok()) return tokenizer.status().with_context(options.model + ": tokenizer");
  for (const std::string& path : options.texts) {
    LYNX_TRY(auto text, read_text(path, *tokenizer, file->config().context - options.continuation));
    session.texts.push_back(std::move(text));
  }
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  session.pool = std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : cores);
  auto model = model::Model::load(*file, session.isa, session.pool.get());
  if (!model.ok()) return model.status().with_context(options.model);
  session.model = std::move(model).value();
  return session;
}

Result<PlaneTrial> PlaneSession::make_trial(const PlaneToolOptions& options) const {
  std::size_t longest = 0;
  for (const PlaneText& text : texts) longest = std::max(longest, text.tokens.size());
  return PlaneTrial::create(model.get(), isa, pool.get(), static_cast<int>(longest), options.continuation);
}

model::SamplingParams trial_sampling(bool greedy, std::size_t text) {
  model::SamplingParams sampling;
  sampling.seed = text;
  sampling.temperature = greedy ? 0.0F : 0.7F;
  if (!greedy) sampling.top_p = 0.9F;
  return sampling;
}

}  // namespace lynx::server
