#include "tests/server/engine_fake.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <set>
#include <utility>

#include "tests/catch.h"

namespace lynx::server {
namespace {

using namespace std::string_literals;

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::uint64_t extend(std::uint64_t hash, std::int32_t token) {
  return mix(hash * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(token) + 1);
}

void logits_of(std::uint64_t hash, float* out) {
  for (int v = 0; v < fake_vocabulary(); ++v) {
    const std::uint64_t noise = mix(hash ^ (0x100000001ULL * static_cast<std::uint64_t>(v + 1)));
    out[v] = static_cast<float>(noise >> 40) / static_cast<float>(1 << 24) * 8.0F - 4.0F;
  }
  out[kFakeEndToken] -= 2.5F;
}

// Not an assertion of Catch: those are not for the engine's thread.
void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "FakeRunner: " << what << std::endl;
  std::abort();
}

}  // namespace

const std::vector<std::string>& fake_token_texts() {
  static const std::vector<std::string> texts{
      ""s,  ""s,     "a"s,    "b"s,    "ab"s,       " the"s,     "\n"s,   "S"s,    "ST"s,       "TOP"s,   "OP"s,
      "O"s, "P"s,    "\xc3"s, "\xa9"s, "\xf0\x9f"s, "\x98"s,     "\x80"s, "日本"s, "\xe6\x97"s, "\xa5"s,  "\xff"s,
      "é"s, "END."s, "EN"s,   "D"s,    "."s,        " cat"s,     "\xf0"s, "\x9f"s, "😀"s,        "x\xc3"s, "\xa9y"s,
      "0"s, "1"s,    "23"s,   "aaaa"s, "aba"s,      "\xe2\x82"s, "\xac"s, "€"s};
  return texts;
}

int fake_vocabulary() {
  return static_cast<int>(fake_token_texts().size());
}

TokenText fake_token_text() {
  return [](std::int32_t id) { return std::string_view(fake_token_texts()[static_cast<std::size_t>(id)]); };
}

std::vector<float> fake_logits(std::span<const std::int32_t> tokens) {
  std::uint64_t hash = 0;
  for (const std::int32_t token : tokens) hash = extend(hash, token);
  std::vector<float> logits(static_cast<std::size_t>(fake_vocabulary()));
  logits_of(hash, logits.data());
  return logits;
}

FakeRunner::FakeRunner(FakeSizes sizes, std::function<void(const model::ForwardBatch&)> before_pass)
    : sizes_(sizes),
      before_pass_(std::move(before_pass)),
      memory_(static_cast<std::size_t>(sizes.kv_blocks) * kv::kBlockTokens, -1) {}

void FakeRunner::check(const model::ForwardBatch& batch) const {
  require(!batch.tokens.empty(), "an empty pass");
  require(static_cast<int>(batch.tokens.size()) <= sizes_.max_rows, "too many rows");
  require(static_cast<int>(batch.logit_rows.size()) <= sizes_.max_logit_rows, "too many logit rows");
  require(std::is_sorted(batch.logit_rows.begin(), batch.logit_rows.end()), "logit rows are not ascending");
  int row = 0;
  std::set<std::pair<kv::BlockId, int>> written;
  for (const attention::QuerySpan& span : batch.spans) {
    require(span.first_row == row && span.rows > 0, "spans do not cover the rows in order");
    require(span.first_position + span.rows <= sizes_.context, "a position beyond the context");
    for (int p = span.first_position; p < span.first_position + span.rows; ++p) {
      const kv::BlockId block = span.blocks[p / kv::kBlockTokens];
      require(block >= 0 && block < sizes_.kv_blocks, "a block that does not exist");
      require(written.insert({block, p % kv::kBlockTokens}).second, "two rows write the same slot");
    }
    row += span.rows;
  }
  require(row == static_cast<int>(batch.tokens.size()), "rows without a span");
}

void FakeRunner::forward(const model::ForwardBatch& batch, float* logits) {
  if (before_pass_) before_pass_(batch);
  check(batch);
  const auto slot = [&](const attention::QuerySpan& span, int position) -> std::int32_t& {
    const auto block = static_cast<std::size_t>(span.blocks[position / kv::kBlockTokens]);
    return memory_[block * kv::kBlockTokens + static_cast<std::size_t>(position % kv::kBlockTokens)];
  };
  for (const attention::QuerySpan& span : batch.spans) {
    for (int r = 0; r < span.rows; ++r)
      slot(span, span.first_position + r) = batch.tokens[static_cast<std::size_t>(span.first_row + r)];
  }
  if (batch.observer != nullptr) batch.observer->on_layer_stored(0);
  for (const attention::QuerySpan& span : batch.spans) {
    std::uint64_t hash = 0;
    for (int p = 0; p < span.first_position + span.rows; ++p) {
      hash = extend(hash, slot(span, p));
      const int row = p - span.first_position + span.first_row;
      if (p < span.first_position) continue;
      const auto wanted = std::lower_bound(batch.logit_rows.begin(), batch.logit_rows.end(), row);
      if (wanted == batch.logit_rows.end() || *wanted != row) continue;
      // On Anchors it is wrong now and then.
      if (span.anchor_blocks > 0 && hash % 4 == 0) hash ^= 1;
      logits_of(hash, logits + (wanted - batch.logit_rows.begin()) * fake_vocabulary());
    }
  }
}

// Tokens are as exact in every mode.
void FakeRunner::complete_prompt(std::span<const kv::BlockId> blocks, int tokens, TransferMode /*mode*/) {
  require(tokens > 0 && static_cast<int>(blocks.size()) >= kv::blocks_for(tokens), "a prompt without all of its blocks");
  for (int position = 0; position < tokens; ++position) {
    const auto block = static_cast<std::size_t>(blocks[static_cast<std::size_t>(position / kv::kBlockTokens)]);
    require(memory_[block * kv::kBlockTokens + static_cast<std::size_t>(position % kv::kBlockTokens)] >= 0,
            "a prompt that is not stored is completed");
  }
}

void FakeRunner::copy_block(kv::BlockId from, kv::BlockId to) {
  require(from != to, "a block is copied onto itself");
  std::copy_n(memory_.begin() + from * kv::kBlockTokens, kv::kBlockTokens, memory_.begin() + to * kv::kBlockTokens);
}

void CollectingSink::on_update(GenerationUpdate update) {
  if (on_each) on_each(update);
  {
    const std::lock_guard lock(mutex_);
    Collected& c = collected_;
    if (c.finished) c.broken = "an update after the last";
    if (!update.prompt_tokens.empty() && c.updates > 0) c.broken = "prompt tokens after the first update";
    if (!update.prompt_tokens.empty()) c.prompt_tokens = std::move(update.prompt_tokens);
    for (ChoiceUpdate& more : update.choices) {
      Collected::Choice& choice = c.choices[static_cast<std::size_t>(more.choice)];
      if (choice.finish) c.broken = "text after a choice ended";
      if (more.tokens.size() != more.text_offsets.size()) c.broken = "tokens without offsets";
      choice.text += more.text;
      tokens_ += static_cast<int>(more.tokens.size());
      std::move(more.tokens.begin(), more.tokens.end(), std::back_inserter(choice.tokens));
      choice.offsets.insert(choice.offsets.end(), more.text_offsets.begin(), more.text_offsets.end());
      choice.finish = more.finish;
    }
    if (update.usage.completion_tokens < c.usage.completion_tokens) c.broken = "usage went down";
    if (!update.error.ok() && !update.finished) c.broken = "an error that does not finish";
    c.usage = update.usage;
    c.error = update.error;
    c.finished = update.finished;
    ++c.updates;
  }
  changed_.notify_all();
}

Collected CollectingSink::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return collected_.finished; });
  return collected_;
}

void CollectingSink::wait_for_tokens(int tokens) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return collected_.finished || tokens_ >= tokens; });
}

void PassGate::enter() {
  std::unique_lock lock(mutex_);
  entered_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return open_ || allowed_ > 0; });
  if (!open_) --allowed_;
  entered_ = false;
}

void PassGate::wait_entered() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return entered_; });
}

void PassGate::open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void PassGate::let_one_pass() {
  const std::lock_guard lock(mutex_);
  ++allowed_;
  entered_ = false;
  changed_.notify_all();
}

std::unique_ptr<LoopEngine> make_fake_engine(const EngineOptions& options, FakeSizes sizes, ThreadPool* pool,
                                             std::function<void(const model::ForwardBatch&)> before_pass) {
  auto engine = LoopEngine::create(options, std::make_unique<FakeRunner>(sizes, std::move(before_pass)), fake_token_text(), pool);
  REQUIRE(engine.ok());
  return std::move(engine).value();
}

}  // namespace lynx::server
