#pragma once

// What the engine needs of a model: the seam between the loop and the arithmetic. Tests put a deterministic function of the tokens
// behind it.

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kv/block_pool.h"
#include "model/model.h"
#include "server/transfer_mode.h"

namespace lynx::server {

/// Not thread-safe: the engine thread's, once the engine runs.
class Runner {
 public:
  virtual ~Runner() = default;

  virtual int vocabulary() const = 0;
  virtual int context() const = 0;
  virtual const std::vector<std::int32_t>& end_tokens() const = 0;
  virtual int kv_blocks() const = 0;
  virtual int max_rows() const = 0;
  virtual int max_logit_rows() const = 0;

  /// As Model::forward: stores K and V of all rows, then writes logits[i][vocabulary] for batch.logit_rows[i].
  virtual void forward(const model::ForwardBatch& batch, float* logits) = 0;

  /// The prompt in these blocks was computed here: gives it the values that a transfer in this mode would have left.
  virtual void complete_prompt(std::span<const kv::BlockId> blocks, int tokens, TransferMode mode) = 0;

  virtual void copy_block(kv::BlockId from, kv::BlockId to) = 0;
};

/// The bytes that a token adds to the text: a piece of UTF-8 that may be incomplete; nothing for control tokens.
using TokenText = std::function<std::string_view(std::int32_t id)>;

}  // namespace lynx::server
