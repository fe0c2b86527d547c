// Batch invariance of whole forwards: the logits of a position have the same bits whether it was computed alone, among others of
// its sequence, beside other sequences, in whatever chunks the prompt came, and on however many threads.

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/catch.h"
#include "tests/model/forward_fixture.h"
#include "tests/model/random_model.h"

namespace lynx::model {
namespace {

std::vector<std::int32_t> random_tokens(unsigned seed, std::size_t count, int vocabulary) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens(count);
  for (auto& token : tokens) token = static_cast<std::int32_t>(random() % static_cast<unsigned>(vocabulary));
  return tokens;
}

/// A sequence and its logits when every position is a pass of its own.
struct Solo {
  std::vector<std::int32_t> tokens;
  std::vector<float> logits;
};

Solo run_solo(TestModel& model, unsigned seed, std::size_t length) {
  Solo solo{random_tokens(seed, length, model.model().config().vocabulary), {}};
  kv::BlockTable table = model.new_table();
  for (std::size_t position = 0; position < length; ++position) {
    const auto row = model.run({&table, static_cast<int>(position), std::span(solo.tokens).subspan(position, 1)});
    solo.logits.insert(solo.logits.end(), row.begin(), row.end());
  }
  return solo;
}

/// Advances a sequence part by part and compares what comes out with its solo run.
class Follower {
 public:
  Follower(TestModel& model, const Solo& solo) : solo_(&solo), table_(model.new_table()), vocabulary_(model.vocabulary()) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return solo_->tokens.size() - position_; }

  /// The next `rows` tokens; logits of `wanted` rows among them.
  TestModel::Part next(std::size_t rows, std::vector<int> wanted) {
    wanted_ = wanted;
    begin_ = position_;
    position_ += rows;
    return {&table_, static_cast<int>(begin_), std::span(solo_->tokens).subspan(begin_, rows), std::move(wanted)};
  }

  /// Consumes this part's rows from the front of `logits`; false if any bit differs.
  bool matches(std::span<const float>& logits) const {
    bool same = true;
    for (const int row : wanted_) {
      const float* const expected = solo_->logits.data() + (begin_ + static_cast<std::size_t>(row)) * vocabulary_;
      same = same && std::memcmp(logits.data(), expected, vocabulary_ * sizeof(float)) == 0;
      logits = logits.subspan(vocabulary_);
    }
    return same;
  }

  void rewind(std::size_t position) { position_ = position; }

 private:
  const Solo* solo_;
  kv::BlockTable table_;
  std::size_t vocabulary_;
  std::size_t position_ = 0;
  std::size_t begin_ = 0;
  std::vector<int> wanted_;
};

/// All rows when they are few; else some, the first and the last included.
std::vector<int> some_rows(std::size_t rows, std::size_t most, std::mt19937& random) {
  std::vector<int> wanted;
  for (std::size_t row = 0; row < rows; ++row) {
    const bool edge = row == 0 || row + 1 == rows;
    if (rows <= most || edge || (wanted.size() + 1 < most && random() % 16 == 0)) wanted.push_back(static_cast<int>(row));
  }
  return wanted;
}

bool run_alone(TestModel& model, Follower& follower, std::size_t rows, std::mt19937& random) {
  const auto part = follower.next(rows, some_rows(rows, 64, random));
  const auto logits = model.run(part);
  std::span<const float> left = logits;
  return follower.matches(left);
}

/// To `end`, in passes as large as the model takes.
bool run_up_to(TestModel& model, Follower& follower, std::size_t end, std::mt19937& random) {
  bool same = true;
  while (follower.position() < end) {
    const std::size_t rows = std::min(end - follower.position(), static_cast<std::size_t>(model.model().max_rows()));
    same = run_alone(model, follower, rows, random) && same;
  }
  return same;
}

struct Subject {
  const char* name;
  ModelConfig config;
  quant::WeightType type;
};

std::vector<Subject> subjects() {
  return {{"ragged F32", ragged_config(), quant::WeightType::kF32}, {"Q4_1", blocked_config(), quant::WeightType::kQ4_1}};
}

/// body(model, solo, description) for every path, model and 1 … 4 threads; the solo run is always of one thread.
template <class Body>
void for_each_setting(std::size_t length, const Body& body) {
  for (const Isa isa : supported_paths()) {
    for (const Subject& subject : subjects()) {
      RandomModel file(subject.config, subject.type, 17);
      TestModel lone(file, isa, 1, 64);
      const Solo solo = run_solo(lone, 23, length);
      for (int threads = 1; threads <= 4; ++threads) {
        INFO(subject.name << ", " << isa_name(isa) << ", " << threads << " threads");
        TestModel model(file, isa, threads, 64);
        body(model, solo);
      }
    }
  }
}

TEST_CASE("k positions together have the bits of one by one") {
  for_each_setting(200, [](TestModel& model, const Solo& solo) {
    std::mt19937 random(1);
    Follower follower(model, solo);
    REQUIRE(run_alone(model, follower, 50, random));
    for (std::size_t k = 2; k <= 64; ++k) {
      follower.rewind(50);
      INFO("k " << k);
      CHECK(run_alone(model, follower, k, random));
    }
  });
}

TEST_CASE("the chunks of a prompt do not matter") {
  for_each_setting(1100, [](TestModel& model, const Solo& solo) {
    std::mt19937 random(2);
    for (const std::size_t border : {63, 64, 65, 511, 512, 513, 1023, 1024, 1025}) {
      Follower follower(model, solo);
      INFO("border " << border);
      CHECK(run_up_to(model, follower, border, random));
      CHECK(run_up_to(model, follower, border + 1, random));
      CHECK(run_up_to(model, follower, solo.tokens.size(), random));
    }
    Follower follower(model, solo);
    while (follower.left() > 0) {
      const std::size_t most = random() % 3 == 0 ? 300 : 40;
      const std::size_t rows = std::min<std::size_t>(follower.left(), 1 + random() % most);
      INFO("chunk " << follower.position() << " + " << rows);
      CHECK(run_alone(model, follower, rows, random));
    }
  });
}

TEST_CASE("other sequences in the batch do not matter") {
  for_each_setting(300, [](TestModel& model, const Solo& solo) {
    std::mt19937 random(3);
    std::vector<Follower> followers;
    for (int i = 0; i < 7; ++i) followers.emplace_back(model, solo);
    for (bool busy = true; busy;) {
      std::vector<TestModel::Part> parts;
      std::vector<Follower*> taking_part;
      std::size_t rows_left = static_cast<std::size_t>(model.model().max_rows());
      for (Follower& follower : followers) {
        if (follower.left() == 0 || random() % 3 == 0) continue;
        const std::size_t wish = random() % 2 == 0 ? 1 : 1 + random() % 90;  // A decode step or a chunk.
        const std::size_t rows = std::min({wish, follower.left(), rows_left});
        if (rows == 0) continue;
        rows_left -= rows;
        parts.push_back(follower.next(rows, some_rows(rows, 9, random)));
        taking_part.push_back(&follower);
      }
      if (!parts.empty()) {
        const auto logits = model.run(parts);
        std::span<const float> left = logits;
        for (const Follower* follower : taking_part) CHECK(follower->matches(left));
      }
      busy = std::any_of(followers.begin(), followers.end(), [](const Follower& follower) { return follower.left() > 0; });
    }
  });
}

TEST_CASE("rows without logits do not matter") {
  for_each_setting(180, [](TestModel& model, const Solo& solo) {
    std::mt19937 random(4);
    for (int repeat = 0; repeat < 10; ++repeat) {
      Follower follower(model, solo);
      model.run(follower.next(60, {}));  // A chunk that only fills the cache.
      std::vector<int> wanted;
      for (int row = 0; row < 100; ++row) {
        if (random() % 4 == 0) wanted.push_back(row);
      }
      const auto logits = model.run(follower.next(100, wanted));
      std::span<const float> left = logits;
      CHECK(follower.matches(left));
    }
  });
}

TEST_CASE("the real model obeys the law") {
  auto file = ModelFile::open(real_model_path());
  INFO(file.status().to_string());
  REQUIRE(file.ok());
  TestModel model(**file, supported_paths().back(), 2, 64);
  const Solo solo = run_solo(model, 31, 90);
  std::mt19937 random(5);
  for (const std::size_t first : {1, 40, 63, 64, 65}) {
    Follower follower(model, solo);
    CHECK(run_alone(model, follower, first, random));
    for (const std::size_t rows : {1, 2, 3, 5, 16, 17, 25}) {
      follower.rewind(first);
      INFO(first << " positions, then " << rows);
      CHECK(run_alone(model, follower, rows, random));
    }
  }
}

}  // namespace
}  // namespace lynx::model
