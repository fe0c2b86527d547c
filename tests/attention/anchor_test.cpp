// Rows that read a prompt's coded blocks as Anchor planes, against double precision over what the planes stand for.

#include <cmath>

#include "tests/attention/anchor_fixture.h"
#include "tests/attention/exact_row.h"

namespace lynx::attention {
namespace {

/// Root mean square error that roundings may leave, relative to Σ weight · |V|.
constexpr double kNoise = 2e-3;

/// Keys whose channels, and values whose tokens, differ much in place and reach: a scale taken from a neighbour shows.
void make_uneven(Fixture& fixture, Fixture::Sequence& sequence) {
  const auto uneven = [](std::size_t i, float* offset) {
    *offset = static_cast<float>(i * 7 % 11) * 0.5F - 2.5F;
    return 0.1F * static_cast<float>(1 + i * 5 % 13);
  };
  const std::size_t row = fixture.kv_row();
  for (std::size_t i = 0; i < sequence.k.size(); ++i) {
    float offset = 0;
    const float k_reach = uneven(i % row, &offset);
    sequence.k[i] = sequence.k[i] * k_reach + offset;
    const float v_reach = uneven(i / row, &offset);
    sequence.v[i] = sequence.v[i] * v_reach + offset * 0.3F;
  }
  for (std::size_t t = 0; t < sequence.k.size() / row; ++t) fixture.store(sequence, static_cast<int>(t));
}

/// Requires that a row is within what some roundings to BF16 explain. Of weights, of the view, of folded weights, of the result one
/// each; those of keys and of folded queries move scores, and so weights. Returns the error of all channels, relative to what was
/// added up.
double check_row(const ExactRow& exact, int head_dim, const std::vector<Bf16>& row) {
  double squares = 0;
  double power = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double reach = exact.magnitude[i] + std::abs(exact.out[i]);
    const double moved = exact.spread[i / static_cast<std::size_t>(head_dim)] * 3 / 256;
    const double allowed = (reach + exact.magnitude[i] + exact.peak[i]) / 256 + reach * moved;
    const double error = std::abs(static_cast<double>(bf16_to_float(row[i])) - exact.out[i]);
    squares += error * error;
    power += exact.magnitude[i] * exact.magnitude[i];
    CAPTURE(i, exact.out[i], exact.magnitude[i], moved, error, allowed);
    REQUIRE(error <= allowed);
  }
  return std::sqrt(squares / power);
}

void check_shape(const Shape& shape, bool wide, ThreadPool& pool) {
  constexpr int kTokens = 1130;
  Fixture fixture(shape, 20, 41);
  AnchorFixture anchors(fixture, wide);
  Fixture::Sequence sequence = fixture.add_sequence(kTokens);
  make_uneven(fixture, sequence);
  const AnchorView planes = anchors.view();
  for (const int blocks : {1, 2, 8, 9, 17}) {
    const Fixture::Sequence view = anchors.code(sequence, blocks);
    for (const int beyond : {0, 1, 37, 63}) {
      const int first = blocks * kBlock + beyond;
      const int rows = std::min(std::vector<int>{1, 2, 7, 40}[static_cast<std::size_t>(blocks + beyond) % 4], kTokens - first);
      if (rows <= 0) continue;
      const ExactRow first_row = exact_row(fixture, view, first);
      const ExactRow last_row = exact_row(fixture, view, first + rows - 1);
      for (const Path& path : paths()) {
        if (path.slow && beyond % 2 == 0) continue;
        CAPTURE(path.name, shape.heads, shape.kv_heads, shape.head_dim, wide, blocks, first, rows);
        const std::vector<Bf16> out = fixture.attend(path, {{&sequence, first, rows, blocks}}, pool, &planes);
        CHECK(check_row(first_row, shape.head_dim, fixture.row(out, 0)) < kNoise);
        CHECK(check_row(last_row, shape.head_dim, fixture.row(out, rows - 1)) < kNoise);
      }
    }
  }
}

TEST_CASE("Rows over Anchor planes agree with double precision over the anchor view") {
  ThreadPool pool(2);
  for (const Shape& shape : {Shape{9, 3, 64}, Shape{4, 4, 80}, Shape{8, 2, 128}, Shape{4, 1, 256}, Shape{5, 1, 34}}) {
    for (const bool wide : {false, true}) check_shape(shape, wide, pool);
  }
}

TEST_CASE("Paths that expand planes give the bits of BF16 blocks that hold the anchor view") {
  ThreadPool pool(1);
  for (const Shape& shape : {Shape{9, 3, 64}, Shape{2, 1, 80}, Shape{3, 1, 34}, Shape{2, 2, 256}}) {
    for (const bool wide : {false, true}) {
      Fixture fixture(shape, 40, 42);
      AnchorFixture anchors(fixture, wide);
      const Fixture::Sequence sequence = fixture.add_sequence(700);
      Fixture::Sequence expanded = anchors.code(sequence, 9);
      for (kv::BlockId& block : expanded.blocks) block = fixture.take_block();
      for (int position = 0; position < 700; ++position) fixture.store(expanded, position);
      const AnchorView planes = anchors.view();
      for (const Path& path : paths()) {
        if (path.name != "portable") continue;
        CAPTURE(path.name, shape.head_dim, wide);
        const std::vector<Bf16> out = fixture.attend(path, {{&sequence, 640, 20, 9}}, pool, &planes);
        REQUIRE(out == fixture.attend(path, {{&expanded, 640, 20}}, pool));
      }
    }
  }
}

TEST_CASE("Each channel of K and each value of V lies where the plane says") {
  // A query of one channel: the keys that reach farthest in it take nearly all the weight, and their V shows.
  ThreadPool pool(1);
  for (const Shape& shape : {Shape{4, 2, 64}, Shape{2, 1, 80}}) {
    for (const bool wide : {false, true}) {
      Fixture fixture(shape, 8, 43);
      AnchorFixture anchors(fixture, wide);
      Fixture::Sequence sequence = fixture.add_sequence(128 + 2 * shape.head_dim);
      for (std::size_t i = 128 * fixture.kv_row(); i < sequence.k.size(); ++i) sequence.k[i] = sequence.v[i] = 0;
      for (Bf16& x : sequence.q) x = 0;
      for (int row = 0; row < 2 * shape.head_dim; ++row) {
        for (int head = 0; head < shape.heads; ++head) {
          const auto at = static_cast<std::size_t>(128 + row) * fixture.q_row();
          const auto channel = static_cast<std::size_t>(head * shape.head_dim + row / 2);
          sequence.q[at + channel] = float_to_bf16(row % 2 == 0 ? 60.0F : -60.0F);
        }
      }
      for (int position = 128; position < 128 + 2 * shape.head_dim; ++position) fixture.store(sequence, position);
      const Fixture::Sequence view = anchors.code(sequence, 2);
      const AnchorView planes = anchors.view();
      std::vector<std::vector<Bf16>> results;
      for (const Path& path : paths()) {
        results.push_back(fixture.attend(path, {{&sequence, 128, 2 * shape.head_dim, 2}}, pool, &planes));
      }
      for (int row = 0; row < 2 * shape.head_dim; ++row) {
        const ExactRow exact = exact_row(fixture, view, 128 + row);
        for (std::size_t p = 0; p < results.size(); ++p) {
          CAPTURE(paths()[p].name, shape.head_dim, wide, row);
          CHECK(check_row(exact, shape.head_dim, fixture.row(results[p], row)) < 0.05);  // A score of 15 may be 15/256 off.
        }
      }
    }
  }
}

}  // namespace
}  // namespace lynx::attention
