// Against the definition in double precision.

#include "tests/attention/attention_fixture.h"
#include "tests/attention/exact_row.h"

namespace lynx::attention {
namespace {

/// Largest excess of |error| over what rounding the weights and the result to BF16 allows, for one row.
double worst_excess(const Fixture& fixture, const Fixture::Sequence& sequence, int position, const std::vector<Bf16>& row) {
  const ExactRow exact = exact_row(fixture, sequence, position);
  double worst = -1;
  for (std::size_t i = 0; i < row.size(); ++i) {
    // Half a unit of the last of BF16's eight bits, twice; FP32's own errors are some hundred times smaller.
    const double allowed = (exact.magnitude[i] + std::abs(exact.out[i])) / 256 * 1.01 + exact.magnitude[i] * 2e-5;
    worst = std::max(worst, std::abs(static_cast<double>(bf16_to_float(row[i])) - exact.out[i]) - allowed);
  }
  return worst;
}

TEST_CASE("attend() agrees with double precision") {
  const std::vector<Shape> shapes = {{9, 3, 64}, {8, 2, 128}, {4, 4, 80}, {2, 1, 2}, {4, 1, 256}, {5, 1, 34}, {64, 1, 32}};
  ThreadPool pool(2);
  for (const Path& path : paths()) {
    for (const Shape& shape : shapes) {
      const int tokens = 1090;
      Fixture fixture(shape, 20, 11);
      const Fixture::Sequence sequence = fixture.add_sequence(tokens);
      for (const int first : {0, 1, 60, 500, 1020}) {
        const int rows = path.slow ? 5 : 70;
        const std::vector<Bf16> out = fixture.attend(path, {{&sequence, first, rows}}, pool);
        for (int r = 0; r < rows; r += path.slow ? 2 : 23) {
          CAPTURE(path.name, shape.heads, shape.kv_heads, shape.head_dim, first + r);
          REQUIRE(worst_excess(fixture, sequence, first + r, fixture.row(out, r)) <= 0);
        }
      }
    }
  }
}

TEST_CASE("A row that sees one key returns that key's V") {
  ThreadPool pool(1);
  for (const Path& path : paths()) {
    Fixture fixture({6, 3, 64}, 2, 5);
    const Fixture::Sequence sequence = fixture.add_sequence(1);
    const std::vector<Bf16> out = fixture.attend(path, {{&sequence, 0, 1}}, pool);
    for (std::size_t i = 0; i < out.size(); ++i) {
      CAPTURE(path.name, i);
      REQUIRE(out[i] == float_to_bf16(sequence.v[i / 128 * 64 + i % 64]));
    }
  }
}

}  // namespace
}  // namespace lynx::attention
