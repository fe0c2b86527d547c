#pragma once

#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "attention/attend_with.h"
#include "device/isa.h"
#include "tests/catch.h"

namespace lynx::attention {

struct Path {
  std::string name;
  ChunkKernel kernel;
  bool slow;  ///< An emulation: tests take fewer cases.
};

/// The paths that this machine can run; says once which it cannot.
inline const std::vector<Path>& paths() {
  static const std::vector<Path> all = [] {
    std::vector<Path> found = {{"portable", chunk_portable, false}};
    const auto add = [&](Isa isa, const char* name, ChunkKernel kernel, bool slow) {
      if (isa_supported(isa)) {
        found.push_back({name, kernel, slow});
      } else {
        std::printf("attention path %s not tested: this machine cannot run %s\n", name, std::string(isa_name(isa)).c_str());
      }
    };
    add(Isa::kAvx2, "avx2", chunk_avx2, false);
    add(Isa::kAvx512Bf16, "avx512bf16", chunk_avx512, false);
    add(Isa::kAvx512Bf16, "amxbf16 emulated", chunk_amx_emulated, true);
    add(Isa::kAmxBf16, "amxbf16", chunk_amx, false);
    return found;
  }();
  return all;
}

struct Shape {
  int heads;
  int kv_heads;
  int head_dim;
};

/// A cache of one layer, sequences in it with K, V and q for every position, and their block tables in a shuffled order.
class Fixture {
 public:
  Fixture(Shape shape, int blocks, unsigned seed) : shape_(shape), random_(seed), cache_(make_cache(shape, blocks)) {
    free_.resize(static_cast<std::size_t>(blocks));
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), random_);
  }

  struct Sequence {
    std::vector<kv::BlockId> blocks;
    std::vector<float> k;  ///< [tokens][kv_heads][head_dim]
    std::vector<float> v;
    std::vector<Bf16> q;  ///< [tokens][heads][head_dim]
  };

  kv::KvCache& cache() { return cache_; }
  const Shape& shape() const { return shape_; }
  float scale() const { return 0.9f / static_cast<float>(shape_.head_dim / 8 + 1); }
  std::size_t kv_row() const { return static_cast<std::size_t>(shape_.kv_heads * shape_.head_dim); }
  std::size_t q_row() const { return static_cast<std::size_t>(shape_.heads * shape_.head_dim); }

  /// A sequence of random values, stored.
  Sequence add_sequence(int tokens) {
    Sequence sequence;
    for (int b = 0; b < kv::blocks_for(tokens); ++b) sequence.blocks.push_back(take_block());
    std::normal_distribution<float> normal;
    sequence.k.resize(static_cast<std::size_t>(tokens) * kv_row());
    sequence.v.resize(sequence.k.size());
    sequence.q.resize(static_cast<std::size_t>(tokens) * q_row());
    for (float& x : sequence.k) x = normal(random_);
    for (float& x : sequence.v) x = normal(random_);
    for (Bf16& x : sequence.q) x = float_to_bf16(normal(random_));
    for (int t = 0; t < tokens; ++t) store(sequence, t);
    return sequence;
  }

  void store(const Sequence& sequence, int position) {
    const std::size_t at = static_cast<std::size_t>(position) * kv_row();
    cache_.store(0, sequence.blocks.data(), position, sequence.k.data() + at, sequence.v.data() + at);
  }

  kv::BlockId take_block() {
    REQUIRE_FALSE(free_.empty());
    const kv::BlockId id = free_.back();
    free_.pop_back();
    return id;
  }

  /// One span's rows: `rows` positions of `sequence` from `first` on.
  struct Part {
    const Sequence* sequence;
    int first;
    int rows;
    int anchor_blocks = 0;
  };

  /// All parts in one call. The result is [rows of all parts][heads][head_dim].
  std::vector<Bf16> attend(const Path& path, const std::vector<Part>& parts, ThreadPool& pool,
                           const AnchorView* anchors = nullptr) const {
    std::vector<QuerySpan> spans;
    std::vector<Bf16> q;
    int rows = 0;
    for (const Part& part : parts) {
      spans.push_back({part.sequence->blocks.data(), part.first, part.rows, rows, part.anchor_blocks});
      const auto begin = part.sequence->q.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(part.first) * q_row());
      q.insert(q.end(), begin, begin + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(part.rows) * q_row()));
      rows += part.rows;
    }
    std::vector<Bf16> out(q.size(), 0xabcd);
    attend_with(path.kernel, cache_, 0, {shape_.heads, scale()}, spans, q.data(), out.data(), pool, anchors);
    return out;
  }

  /// One row by itself on one thread: what every other way of computing it must equal.
  std::vector<Bf16> alone(const Path& path, const Sequence& sequence, int position) const {
    ThreadPool pool(1);
    return attend(path, {{&sequence, position, 1}}, pool);
  }

  /// The row `index` of a result.
  std::vector<Bf16> row(const std::vector<Bf16>& result, int index) const {
    const auto begin = result.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(index) * q_row());
    return {begin, begin + static_cast<std::ptrdiff_t>(q_row())};
  }

 private:
  static kv::KvCache make_cache(Shape shape, int blocks) {
    Result<kv::KvCache> cache = kv::KvCache::create({1, shape.kv_heads, shape.head_dim}, blocks);
    REQUIRE(cache.ok());
    return std::move(cache).value();
  }

  Shape shape_;
  std::mt19937 random_;
  kv::KvCache cache_;
  std::vector<kv::BlockId> free_;
};

}  // namespace lynx::attention
