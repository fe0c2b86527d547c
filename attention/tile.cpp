#include "attention/tile.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "attention/anchor_planes.h"
#include "device/exp_math.h"

namespace lynx::attention {
namespace {

constexpr int kPairValues = 32;  ///< V's inner row: 16 channels of two tokens.
constexpr int kGroupValues = kBlock / 2 * kPairValues;

const QuerySpan& span_of(const Call& call, const Tile& tile) {
  return call.spans[static_cast<std::size_t>(tile.span)];
}

/// Index in q and out of a tile's line, channel 0.
std::size_t line_offset(const Call& call, const Tile& tile, int line) {
  const int group = call.group();
  const int row = span_of(call, tile).first_row + (tile.first_line + line) / group;
  const int head = tile.kv_head * group + (tile.first_line + line) % group;
  return (static_cast<std::size_t>(row) * static_cast<std::size_t>(call.shape.heads) + static_cast<std::size_t>(head)) *
         static_cast<std::size_t>(call.cache->shape().head_dim);
}

/// Keys of the chunk that a tile's line sees.
int visible_keys(const Call& call, const Tile& tile, int line, int chunk) {
  const int position = span_of(call, tile).first_position + (tile.first_line + line) / call.group();
  return std::clamp(position + 1 - chunk * kChunkTokens, 0, kChunkTokens);
}

/// The tile's queries, with room for a kernel to read kLineTile lines from any line on.
void gather_queries(const Call& call, const Tile& tile, Bf16* q) {
  const int dim = call.dim();
  const auto head_dim = static_cast<std::size_t>(call.cache->shape().head_dim);
  std::memset(q, 0, static_cast<std::size_t>((tile.lines + kLineTile) * dim) * sizeof(Bf16));
  for (int line = 0; line < tile.lines; ++line) {
    std::memcpy(q + line * dim, call.q + line_offset(call, tile, line), head_dim * sizeof(Bf16));
  }
}

/// Whether V of the chunk's tokens [from, to) is finite (looking at whole pairs).
bool values_finite(const ChunkTask& task, int from, int to) {
  for (int pair = from / 2; pair < (to + 1) / 2; ++pair) {
    const Bf16* row = task.v[pair / (kBlock / 2)] + pair % (kBlock / 2) * kPairValues;
    for (int group = 0; group < task.dim / 16; ++group) {
      int not_finite = 0;
      for (int i = 0; i < kPairValues; ++i) not_finite |= (row[group * kGroupValues + i] & 0x7f80) == 0x7f80;
      if (not_finite != 0) return false;
    }
  }
  return true;
}

/// The block's V with zeros for the tokens from `keys` on.
void copy_values(const Bf16* v, int dim, int keys, Bf16* out) {
  for (int group = 0; group < dim / 16; ++group) {
    const Bf16* from = v + group * kGroupValues;
    Bf16* to = out + group * kGroupValues;
    const int whole = keys / 2 * kPairValues;
    std::memcpy(to, from, static_cast<std::size_t>(whole) * sizeof(Bf16));
    std::memset(to + whole, 0, static_cast<std::size_t>(kGroupValues - whole) * sizeof(Bf16));
    if (keys % 2 == 0) continue;
    for (int channel = 0; channel < 16; ++channel) to[whole + 2 * channel] = from[whole + 2 * channel];
  }
}

/// Runs the kernel over lines that see no key from task.keys on.
void run_kernel(const Call& call, ChunkTask task, Bf16* v_tail) {
  const int last = task.keys / kBlock;
  const int rest = task.keys % kBlock;
  if (rest != 0) {
    copy_values(task.v[last], task.dim, rest, v_tail);
    task.v[last] = v_tail;
  }
  call.kernel(task);
}

/// Zero times infinity is not zero: lines that must not see such a value go row by row, each with its own last key.
void run_by_rows(const Call& call, const ChunkTask& task, Scratch& scratch) {
  for (int first = 0, next = 0; first < task.lines; first = next) {
    next = first + 1;
    while (next < task.lines && task.visible[next] == task.visible[first]) ++next;
    if (task.visible[first] == 0) continue;  // merge_chunk() passes over such lines.
    const State row = state_at(scratch.row, next - first, task.dim);
    ChunkTask part = task;
    part.keys = task.visible[first];
    part.lines = next - first;
    part.visible += first;
    part.q += first * task.dim;
    part.maxima = task.maxima + first;
    part.sums = task.sums + first;
    part.out = row.out;
    run_kernel(call, part, scratch.v_tail);
    std::memcpy(task.out + first * task.dim, row.out, static_cast<std::size_t>((next - first) * task.dim) * sizeof(float));
  }
}

/// merged[line] and chunk[line] become merged[line].
void merge_line(State merged, State chunk, int line, int dim) {
  const float larger = chunk.maxima[line] > merged.maxima[line] ? chunk.maxima[line] : merged.maxima[line];
  const float shift = larger == -__builtin_inff() ? 0.0f : larger;
  const float keep = exp_f32(merged.maxima[line] - shift);
  const float add = exp_f32(chunk.maxima[line] - shift);
  merged.maxima[line] = larger;
  merged.sums[line] = merged.sums[line] * keep + chunk.sums[line] * add;
  float* out = merged.out + line * dim;
  const float* more = chunk.out + line * dim;
  for (int c = 0; c < dim; ++c) out[c] = out[c] * keep + more[c] * add;
}

void merge_chunk(const Call& call, const Tile& tile, int chunk, State merged, State state) {
  for (int line = 0; line < tile.lines; ++line) {
    // A chunk beyond the line's position is none of its business: alone it would not have been visited.
    if (visible_keys(call, tile, line, chunk) > 0) merge_line(merged, state, line, call.dim());
  }
}

/// Divides by the sums, rounds, and writes. Adding zero makes a negative zero positive and every NaN becomes the same one: their
/// bits could depend on how tiles were formed.
void write_tile(const Call& call, const Tile& tile, State state) {
  constexpr Bf16 kNan = 0x7fc0;
  const int head_dim = call.cache->shape().head_dim;
  for (int line = 0; line < tile.lines; ++line) {
    const float factor = 1.0f / state.sums[line];
    const float* values = state.out + line * call.dim();
    Bf16* out = call.out + line_offset(call, tile, line);
    for (int c = 0; c < head_dim; ++c) {
      const float value = values[c] * factor + 0.0f;
      out[c] = value != value ? kNan : float_to_bf16(value);
    }
  }
}

State split_state(const Call& call, const Tile& tile, int chunk, float* states) {
  const std::ptrdiff_t offset = tile.state + std::ptrdiff_t{chunk} * state_size(tile.lines, call.dim());
  return state_at(states + offset, tile.lines, call.dim());
}

/// Blocks of the chunk that the tile reads as planes.
void locate_planes(const Call& call, const Tile& tile, int chunk, Scratch& scratch, ChunkTask& task) {
  constexpr int kBlocks = kChunkTokens / kBlock;
  const QuerySpan& span = span_of(call, tile);
  task.anchors = std::clamp(span.anchor_blocks - chunk * kBlocks, 0, kBlocks);
  if (task.anchors == 0) return;
  assert(call.anchors != nullptr && span.first_position >= span.anchor_blocks * kBlock);
  if (scratch.planes == nullptr) scratch.planes = std::make_unique_for_overwrite<PlaneScratch>();
  PlaneScratch& planes = *scratch.planes;
  const auto head_at = [&](int index, int kv_head, kv::KvPart part) {
    const AnchorPlace place{call.layer, span.blocks[index], index == 0, kv_head};
    return anchor_head(*call.anchors, call.cache->shape(), place, part);
  };
  for (int b = 0; b < task.anchors; ++b) {
    planes.k[b] = head_at(chunk * kBlocks + b, tile.kv_head, kv::KvPart::kK);
    planes.v[b] = head_at(chunk * kBlocks + b, tile.kv_head, kv::KvPart::kV);
  }
  const int next_head = std::min(tile.kv_head + 1, call.cache->shape().kv_heads - 1);
  for (int b = 0; b < kPlanesAhead; ++b) {
    const int index = chunk * kBlocks + task.anchors + b;
    const bool follows = index < span.anchor_blocks;
    const int of_next = std::min(b, span.anchor_blocks - 1);
    planes.k[task.anchors + b] = head_at(follows ? index : of_next, follows ? tile.kv_head : next_head, kv::KvPart::kK);
  }
  task.anchor_k = planes.k;
  task.anchor_v = planes.v;
  task.view = planes.view;
}

/// Computes one chunk into `state`; the queries are in the scratch.
void compute_chunk(const Call& call, const Tile& tile, int chunk, Scratch& scratch, State state) {
  int visible[kTileLines];
  for (int line = 0; line < tile.lines; ++line) visible[line] = visible_keys(call, tile, line, chunk);
  ChunkTask task = {};
  task.keys = visible[tile.lines - 1];
  task.lines = tile.lines;
  task.visible = visible;
  task.q = scratch.q;
  task.dim = call.dim();
  task.head_dim = call.cache->shape().head_dim;
  task.scale = call.shape.scale;
  task.scores = scratch.scores;
  task.weights = scratch.weights;
  task.maxima = state.maxima;
  task.sums = state.sums;
  task.out = state.out;
  const kv::BlockId* blocks = span_of(call, tile).blocks + chunk * (kChunkTokens / kBlock);
  for (int b = 0; b < kv::blocks_for(task.keys); ++b) {
    task.k[b] = call.cache->k(call.layer, blocks[b], tile.kv_head);
    task.v[b] = call.cache->v(call.layer, blocks[b], tile.kv_head);
  }
  task.next = chunk + 1 < tile.chunks ? call.cache->k(call.layer, blocks[kChunkTokens / kBlock], tile.kv_head) : task.k[0];
  locate_planes(call, tile, chunk, scratch, task);
  if (visible[0] == task.keys || values_finite(task, visible[0], task.keys)) return run_kernel(call, task, scratch.v_tail);
  run_by_rows(call, task, scratch);
}

}  // namespace

State state_at(float* memory, int lines, int dim) {
  const int padded_lines = (lines + kLineTile - 1) / kLineTile * kLineTile;
  return {memory, memory + padded_lines * dim, memory + padded_lines * (dim + 1)};
}

void compute_tile(const Call& call, const Tile& tile, Scratch& scratch) {
  gather_queries(call, tile, scratch.q);
  const State merged = state_at(scratch.merged, tile.lines, call.dim());
  compute_chunk(call, tile, 0, scratch, merged);
  const State state = state_at(scratch.state, tile.lines, call.dim());
  for (int chunk = 1; chunk < tile.chunks; ++chunk) {
    compute_chunk(call, tile, chunk, scratch, state);
    merge_chunk(call, tile, chunk, merged, state);
  }
  write_tile(call, tile, merged);
}

void compute_split_chunk(const Call& call, const Tile& tile, int chunk, Scratch& scratch, float* states) {
  gather_queries(call, tile, scratch.q);
  compute_chunk(call, tile, chunk, scratch, split_state(call, tile, chunk, states));
}

void merge_split_tile(const Call& call, const Tile& tile, float* states) {
  const State merged = split_state(call, tile, 0, states);
  for (int chunk = 1; chunk < tile.chunks; ++chunk) {
    merge_chunk(call, tile, chunk, merged, split_state(call, tile, chunk, states));
  }
  write_tile(call, tile, merged);
}

}  // namespace lynx::attention
