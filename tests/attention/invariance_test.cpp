// The law: a row's bits do not depend on what is computed with it.

#include <map>

#include "tests/attention/anchor_fixture.h"

namespace lynx::attention {
namespace {

constexpr int kTokens = 1100;

/// Rows computed alone, remembered.
class Alone {
 public:
  Alone(const Fixture& fixture, const Path& path) : fixture_(fixture), path_(path) {}

  const std::vector<Bf16>& row(const Fixture::Sequence& sequence, int position) {
    auto [it, added] = rows_.try_emplace({&sequence, position});
    if (added) it->second = fixture_.alone(path_, sequence, position);
    return it->second;
  }

 private:
  const Fixture& fixture_;
  const Path& path_;
  std::map<std::pair<const Fixture::Sequence*, int>, std::vector<Bf16>> rows_;
};

/// Requires every row of every part to equal the row alone.
void check_parts(const Fixture& fixture, const Path& path, Alone& alone, const std::vector<Fixture::Part>& parts,
                 ThreadPool& pool) {
  const std::vector<Bf16> out = fixture.attend(path, parts, pool);
  int index = 0;
  for (const Fixture::Part& part : parts) {
    for (int r = 0; r < part.rows; ++r, ++index) {
      if (fixture.row(out, index) == alone.row(*part.sequence, part.first + r)) continue;
      FAIL(path.name << ": position " << part.first + r << " in a span of " << part.rows << " from " << part.first << " with "
                     << parts.size() << " spans on " << pool.size() << " threads differs");
    }
  }
}

TEST_CASE("A row's bits are the same alone and among 2 … 64 rows, at every border, on 1 … 4 threads") {
  for (const Shape& shape : {Shape{9, 3, 64}, Shape{8, 2, 128}, Shape{3, 1, 34}}) {
    Fixture fixture(shape, 20, 21);
    const Fixture::Sequence sequence = fixture.add_sequence(kTokens);
    for (const Path& path : paths()) {
      if (path.slow && shape.head_dim != 64) continue;  // Said once below; the real tiles take all shapes.
      Alone alone(fixture, path);
      const std::vector<int> positions =
          path.slow ? std::vector<int>{0, 63, 511, 1023}
                    : std::vector<int>{0, 1, 31, 62, 63, 64, 65, 510, 511, 512, 513, 1022, 1023, 1024, 1025};
      const std::vector<int> counts = path.slow ? std::vector<int>{2, 17} : std::vector<int>{2, 3, 5, 8, 16, 17, 33, 64};
      int turn = 0;
      for (const int first : positions) {
        for (const int rows : counts) {
          ThreadPool pool(1 + turn++ % 4);
          check_parts(fixture, path, alone, {{&sequence, first, rows}}, pool);
        }
      }
    }
  }
}

TEST_CASE("Any prefill chunking gives the same bits") {
  Fixture fixture({6, 2, 64}, 20, 22);
  const Fixture::Sequence sequence = fixture.add_sequence(kTokens);
  for (const Path& path : paths()) {
    if (path.slow) continue;  // Chunking is the driver's: what the emulated kernel sees is what the test above shows it.
    ThreadPool pool(2);
    const std::vector<Bf16> whole = fixture.attend(path, {{&sequence, 0, kTokens}}, pool);
    Alone alone(fixture, path);
    for (int position = 0; position < kTokens; position += 7) {
      CAPTURE(path.name, position);
      REQUIRE(fixture.row(whole, position) == alone.row(sequence, position));
    }
    for (const int chunk : {63, 64, 65, 100, 511, 512, 513, 1000}) {
      std::vector<Bf16> pieces;
      for (int first = 0; first < kTokens; first += chunk) {
        const std::vector<Bf16> piece = fixture.attend(path, {{&sequence, first, std::min(chunk, kTokens - first)}}, pool);
        pieces.insert(pieces.end(), piece.begin(), piece.end());
      }
      CAPTURE(path.name, chunk);
      REQUIRE(pieces == whole);
    }
  }
}

TEST_CASE("Mixed batches of prefill chunks and decode steps give the same bits, on 1 … 4 threads") {
  Fixture fixture({9, 3, 64}, 80, 23);
  const std::vector<Fixture::Sequence> sequences = {fixture.add_sequence(kTokens), fixture.add_sequence(130),
                                                    fixture.add_sequence(600), fixture.add_sequence(2100)};
  for (const Path& path : paths()) {
    Alone alone(fixture, path);
    std::mt19937 random(5);
    for (int round = 0; round < (path.slow ? 2 : 24); ++round) {
      std::vector<Fixture::Part> parts;
      const int count = 1 + static_cast<int>(random() % (path.slow ? 3 : 7));
      for (int i = 0; i < count; ++i) {
        const Fixture::Sequence& sequence = sequences[random() % sequences.size()];
        const int tokens = static_cast<int>(sequence.k.size() / fixture.kv_row());
        const int rows = random() % 2 == 0 ? 1 : 1 + static_cast<int>(random() % (path.slow ? 4 : 40));
        parts.push_back({&sequence, static_cast<int>(random() % static_cast<unsigned>(tokens - rows + 1)), rows});
      }
      ThreadPool pool(1 + round % 4);
      check_parts(fixture, path, alone, parts, pool);
    }
  }
}

TEST_CASE("A long context on many threads, cut into its chunks, gives the bits of one thread") {
  Fixture fixture({4, 2, 64}, 80, 24);
  const Fixture::Sequence sequence = fixture.add_sequence(4700);
  for (const Path& path : paths()) {
    Alone alone(fixture, path);
    for (int threads = 2; threads <= 4; ++threads) {
      ThreadPool pool(threads);
      for (const int rows : {1, 3}) {
        check_parts(fixture, path, alone, {{&sequence, 4600, rows}}, pool);
        check_parts(fixture, path, alone, {{&sequence, 4607, rows}}, pool);
      }
    }
  }
}

TEST_CASE("A fork that shares blocks reads as a sequence of its own") {
  Fixture fixture({6, 3, 64}, 40, 25);
  const Fixture::Sequence first = fixture.add_sequence(700);
  Fixture::Sequence fork = first;
  fork.blocks[10] = fixture.take_block();  // Positions 640 … 703: copied on the first write.
  fixture.cache().copy_block(first.blocks[10], fork.blocks[10]);
  for (std::size_t i = 680 * fixture.kv_row(); i < fork.k.size(); ++i) {
    fork.k[i] = -fork.k[i];
    fork.v[i] += 1.0f;
  }
  for (int position = 680; position < 700; ++position) fixture.store(fork, position);
  Fixture::Sequence copy = fork;
  for (kv::BlockId& id : copy.blocks) id = fixture.take_block();
  for (int position = 0; position < 700; ++position) fixture.store(copy, position);

  ThreadPool pool(2);
  for (const Path& path : paths()) {
    CAPTURE(path.name);
    const std::vector<Bf16> both = fixture.attend(path, {{&first, 660, 40}, {&fork, 660, 40}, {&copy, 660, 40}}, pool);
    const std::size_t part = 40 * fixture.q_row();
    const auto at = [&](std::size_t i) { return both.begin() + static_cast<std::ptrdiff_t>(i * part); };
    CHECK(std::vector<Bf16>(at(1), at(2)) == std::vector<Bf16>(at(2), at(3)));
    CHECK(std::vector<Bf16>(at(0), at(1)) != std::vector<Bf16>(at(1), at(2)));
    CHECK(fixture.row(both, 19) == fixture.row(both, 40 + 19));  // Position 679, before they part.
  }
}

TEST_CASE("Beside spans that read planes a row's bits stay; and such a span has its own bits whatever is beside it") {
  for (const bool wide : {false, true}) {
    Fixture fixture({6, 2, 64}, 60, 26);
    AnchorFixture anchors(fixture, wide);
    const std::vector<Fixture::Sequence> plain = {fixture.add_sequence(700), fixture.add_sequence(130)};
    const std::vector<Fixture::Sequence> drafting = {fixture.add_sequence(1300), fixture.add_sequence(180),
                                                     fixture.add_sequence(600)};
    const std::vector<int> blocks = {19, 2, 8};  // Up to the row, a block before it, up to the end of a chunk.
    for (std::size_t i = 0; i < drafting.size(); ++i) anchors.code(drafting[i], blocks[i]);
    const AnchorView planes = anchors.view();
    for (const Path& path : paths()) {
      CAPTURE(path.name, wide);
      const std::vector<Fixture::Part> parts = {{&plain[0], 650, 5},
                                                {&drafting[0], 1216, 1, blocks[0]},
                                                {&plain[1], 0, path.slow ? 20 : 130},
                                                {&drafting[1], 140, 8, blocks[1]},
                                                {&plain[0], 699, 1},
                                                {&drafting[2], 512, 20, blocks[2]}};
      Alone alone(fixture, path);
      for (int threads = 1; threads <= 4; ++threads) {
        ThreadPool pool(threads);
        const std::vector<Bf16> together = fixture.attend(path, parts, pool, &planes);
        int index = 0;
        for (const Fixture::Part& part : parts) {
          ThreadPool one(1);
          const std::vector<Bf16> by_itself = fixture.attend(path, {part}, one, &planes);
          for (int r = 0; r < part.rows; ++r, ++index) {
            CAPTURE(threads, index);
            REQUIRE(fixture.row(together, index) == fixture.row(by_itself, r));
            if (part.anchor_blocks == 0) REQUIRE(fixture.row(together, index) == alone.row(*part.sequence, part.first + r));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lynx::attention
