// The definition in plain C++: separate multiplications and additions, lanes as arrays that any compiler may vectorize.

#include "attention/chunk_kernel.h"
#include "attention/expand_anchors.h"
#include "device/exp_math.h"

namespace lynx::attention {
namespace {

constexpr int kLanes = 16;
constexpr int kRowValues = 2 * kLanes;

/// sums[lane] += left[2p] · right[p][lane][0], then left[2p + 1] · right[p][lane][1], for p ascending.
void add_pairs(const Bf16* left, const Bf16* right, int pairs, float (&sums)[kLanes]) {
  float chains[kLanes];
  for (int i = 0; i < kLanes; ++i) chains[i] = sums[i];
  for (int p = 0; p < pairs; ++p) {
    const float even = bf16_to_float(left[2 * p]);
    const float odd = bf16_to_float(left[2 * p + 1]);
    std::uint32_t words[kLanes];  // Two BF16 each, the first in the lower half: this way the loop below is vectorized.
    __builtin_memcpy(words, right + p * kRowValues, sizeof words);
    for (int i = 0; i < kLanes; ++i) {
      chains[i] += even * bits_to_float(words[i] << 16);
      chains[i] += odd * bits_to_float(words[i] & 0xffff0000u);
    }
  }
  for (int i = 0; i < kLanes; ++i) sums[i] = chains[i];
}

void score_line(const ChunkTask& task, int line) {
  for (int g = 0; g < (task.keys + kLanes - 1) / kLanes; ++g) {
    float sums[kLanes] = {};
    add_pairs(task.q + line * task.dim, task.k[g / 4] + g % 4 * kLanes * task.dim, task.dim / 2, sums);
    float* out = task.scores + line * kScoreStride + g * kLanes;
    for (int i = 0; i < kLanes; ++i) out[i] = sums[i] * task.scale;
  }
}

/// Weights of the keys beyond the line's own are zero up to the next multiple of 16 keys.
void softmax_line(const ChunkTask& task, int line) {
  const float* scores = task.scores + line * kScoreStride;
  Bf16* weights = task.weights + line * kWeightStride;
  const int visible = task.visible[line];
  float maximum = -__builtin_inff();
  for (int key = 0; key < visible; ++key) maximum = scores[key] > maximum ? scores[key] : maximum;
  // With nothing above -infinity every weight is exp(-infinity - 0) = 0.
  const float shift = maximum == -__builtin_inff() ? 0.0f : maximum;
  float sums[kLanes] = {};
  for (int key = 0; key < (task.keys + kLanes - 1) / kLanes * kLanes; ++key) {
    const float weight = key < visible ? exp_f32(scores[key] - shift) : 0.0f;
    sums[key % kLanes] += weight;
    weights[key] = float_to_bf16(weight);
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  task.maxima[line] = maximum;
  task.sums[line] = sums[0];
}

void weigh_line(const ChunkTask& task, int line) {
  constexpr int kPairsOfBlock = kBlock / 2;
  const int pairs = (task.keys + 1) / 2;
  for (int channel = 0; channel < task.dim; channel += kLanes) {
    float sums[kLanes] = {};
    for (int begin = 0; begin < pairs; begin += kPairsOfBlock) {
      const int count = pairs - begin < kPairsOfBlock ? pairs - begin : kPairsOfBlock;
      add_pairs(task.weights + line * kWeightStride + 2 * begin, task.v[begin / kPairsOfBlock] + channel * kBlock, count, sums);
    }
    float* out = task.out + line * task.dim + channel;
    for (int i = 0; i < kLanes; ++i) out[i] = sums[i];
  }
}

}  // namespace

void chunk_portable(const ChunkTask& task) {
  if (task.anchors > 0) return chunk_portable(expand_anchors(task));
  for (int line = 0; line < task.lines; ++line) {
    score_line(task, line);
    softmax_line(task, line);
    weigh_line(task, line);
  }
}

}  // namespace lynx::attention
