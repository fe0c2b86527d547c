#pragma once

// What the tests of whole forwards share: the model under test and sequences that are advanced by any mix of passes.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attention/attention.h"
#include "device/isa.h"
#include "device/thread_pool.h"
#include "kv/block_table.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "tests/catch.h"

namespace lynx::model {

/// The default model; scripts/test.sh fetches it, so that it is always there.
inline std::string real_model_path() {
  const char* const named = std::getenv("LYNX_TEST_MODEL");
  return named != nullptr ? named : ".models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

inline std::vector<Isa> supported_paths() {
  std::vector<Isa> paths;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512Bf16, Isa::kAmxBf16}) {
    if (isa_supported(isa)) paths.push_back(isa);
  }
  return paths;
}

/// A model with a cache of its own.
class TestModel {
 public:
  TestModel(ModelFile& file, Isa isa, int threads, int blocks) : pool_(threads), blocks_(blocks) {
    auto loaded = Model::load(file, isa, &pool_);
    INFO(loaded.status().to_string());
    REQUIRE(loaded.ok());
    model_ = std::move(loaded).value();
    auto cache = kv::KvCache::create(model_->kv_shape(), blocks);
    INFO(cache.status().to_string());
    REQUIRE(cache.ok());
    cache_.emplace(std::move(cache).value());
  }

  Model& model() { return *model_; }
  kv::KvCache& cache() { return *cache_; }
  std::size_t vocabulary() const { return static_cast<std::size_t>(model_->config().vocabulary); }
  kv::BlockTable new_table() { return kv::BlockTable(&blocks_); }

  /// One part of a pass: the next tokens of a sequence.
  struct Part {
    kv::BlockTable* table;
    int first_position;
    std::span<const std::int32_t> tokens;
    std::optional<std::vector<int>> logit_rows = std::nullopt;  ///< Rows of the part whose logits are wanted; nullopt = all.
    int anchor_blocks = 0;                                      ///< Needs use_planes().
  };

  /// What parts with anchor_blocks read from now on; not owned.
  void use_planes(const kv::AnchorCache* anchors, const quant::PlaneProfile* profile) {
    anchors_ = anchors;
    profile_ = profile;
  }

  /// Runs one pass and returns the wanted logits, row after row.
  std::vector<float> run(std::span<const Part> parts) {
    std::vector<std::int32_t> tokens;
    std::vector<attention::QuerySpan> spans;
    std::vector<int> logit_rows;
    for (const Part& part : parts) {
      const int rows = static_cast<int>(part.tokens.size());
      const int first_row = static_cast<int>(tokens.size());
      REQUIRE(part.table->reserve(part.first_position + rows));
      spans.push_back({part.table->blocks().data(), part.first_position, rows, first_row, part.anchor_blocks});
      for (int row = 0; row < rows && !part.logit_rows; ++row) logit_rows.push_back(first_row + row);
      for (const int row : part.logit_rows.value_or(std::vector<int>{})) logit_rows.push_back(first_row + row);
      tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
    }
    REQUIRE(static_cast<int>(tokens.size()) <= model_->max_rows());
    REQUIRE(static_cast<int>(logit_rows.size()) <= model_->max_logit_rows());
    std::vector<float> logits(logit_rows.size() * vocabulary());
    ForwardBatch batch{tokens, spans, logit_rows};
    batch.anchors = anchors_;
    batch.profile = profile_;
    model_->forward(batch, *cache_, logits.data());
    return logits;
  }

  std::vector<float> run(const Part& part) { return run(std::span(&part, 1)); }

 private:
  ThreadPool pool_;
  kv::BlockPool blocks_;
  std::unique_ptr<Model> model_;
  std::optional<kv::KvCache> cache_;
  const kv::AnchorCache* anchors_ = nullptr;
  const quant::PlaneProfile* profile_ = nullptr;
};

}  // namespace lynx::model
