#pragma once

// The definition in double precision.

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/attention/attention_fixture.h"

namespace lynx::attention {

/// One row of attention; vectors but `spread` are [heads][head_dim].
struct ExactRow {
  std::vector<double> out;
  std::vector<double> magnitude;  ///< Σ weight · |V|.
  std::vector<double> peak;       ///< Σ weight · the largest |V| of the token and head.
  std::vector<double> spread;     ///< [heads] most of any key: root of the sum of squares that its score is made of.
};

inline ExactRow exact_row(const Fixture& fixture, const Fixture::Sequence& sequence, int position) {
  const Shape& shape = fixture.shape();
  const int group = shape.heads / shape.kv_heads;
  const auto bf16_of = [](float x) { return static_cast<double>(bf16_to_float(float_to_bf16(x))); };
  ExactRow row;
  for (int head = 0; head < shape.heads; ++head) {
    const auto kv_at = [&](int key) {
      return static_cast<std::size_t>(key) * fixture.kv_row() + static_cast<std::size_t>(head / group * shape.head_dim);
    };
    const Bf16* q = sequence.q.data() + static_cast<std::size_t>(position) * fixture.q_row() + head * shape.head_dim;
    std::vector<double> weights(static_cast<std::size_t>(position) + 1);
    std::vector<double> peaks(weights.size());
    double largest = -1e300;
    double spread = 0;
    for (int key = 0; key <= position; ++key) {
      const auto index = static_cast<std::size_t>(key);
      double squares = 0;
      for (int c = 0; c < shape.head_dim; ++c) {
        const std::size_t at = kv_at(key) + static_cast<std::size_t>(c);
        const double product = static_cast<double>(bf16_to_float(q[c])) * bf16_of(sequence.k[at]);
        weights[index] += product * static_cast<double>(fixture.scale());
        squares += product * product;
        peaks[index] = std::max(peaks[index], std::abs(bf16_of(sequence.v[at])));
      }
      largest = std::max(largest, weights[index]);
      spread = std::max(spread, std::sqrt(squares) * static_cast<double>(fixture.scale()));
    }
    row.spread.push_back(spread);
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    for (int c = 0; c < shape.head_dim; ++c) {
      double out = 0;
      double magnitude = 0;
      double peak = 0;
      for (int key = 0; key <= position; ++key) {
        const double weight = weights[static_cast<std::size_t>(key)] / sum;
        const double v = bf16_of(sequence.v[kv_at(key) + static_cast<std::size_t>(c)]);
        out += weight * v;
        magnitude += weight * std::abs(v);
        peak += weight * peaks[static_cast<std::size_t>(key)];
      }
      row.out.push_back(out);
      row.magnitude.push_back(magnitude);
      row.peak.push_back(peak);
    }
  }
  return row;
}

}  // namespace lynx::attention
