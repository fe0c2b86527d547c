#pragma once

// How many KV blocks one request holds and will need, counted with copy-on-write: its choices share the prompt's full blocks for
// good, and the prompt's partly filled tail block until each writes its first own token. Counts only; the blocks are kv/'s.

#include <span>
#include <vector>

namespace lynx::scheduler {

class RequestBlocks {
 public:
  RequestBlocks(int prompt_tokens, int choices, int block_tokens);

  /// Blocks that hold the prompt.
  int prompt_blocks() const { return full_ + tail_; }

  /// Blocks held when every choice has `tokens` tokens (prompt included) and none has ended: the request's greatest need.
  int blocks_at(int tokens) const;

  /// The most tokens each choice can have (prompt included) within `blocks`; 0 if not even the prompt fits.
  int most_tokens_in(int blocks) const;

  /// Blocks held now.
  int held() const;
  int held_alone(int choice) const { return choices_[static_cast<std::size_t>(choice)].own; }
  bool holds(int choice) const { return choices_[static_cast<std::size_t>(choice)].holds; }

  /// `choice` holds the prompt's blocks, together with all others that do: the one that computes the prompt on admission, the rest
  /// when it is complete.
  void take_prompt(int choice);

  /// Blocks to take so that `choice` may write up to `tokens` tokens. It holds the prompt.
  int growth(int choice, int tokens) const;
  void grow(int choice, int tokens);

  /// `choice` gives back what it holds beyond `tokens` tokens (more than the prompt's): so many blocks, all its own.
  int shrink(int choice, int tokens);

  /// Blocks to take so that every choice may write up to tokens[choice]; 0 = that choice stays as it is. Choices that do not hold
  /// the prompt yet are counted as if they will share it.
  int growth_of_all(std::span<const int> tokens) const;

  /// `choice` gives up all that it holds.
  void release(int choice);

 private:
  struct Choice {
    bool holds = false;    ///< Shares the prompt's full blocks.
    bool on_tail = false;  ///< Still shares the prompt's tail block.
    int own = 0;           ///< Blocks of its own beyond the shared ones.
  };
  int own_blocks_at(int tokens) const;
  int tail_sharers() const;

  int block_tokens_;
  int full_;  ///< Full blocks of the prompt.
  int tail_;  ///< 1 if the prompt ends inside a block.
  int prompt_tokens_;
  std::vector<Choice> choices_;
};

}  // namespace lynx::scheduler
