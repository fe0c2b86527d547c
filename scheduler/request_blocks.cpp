#include "scheduler/request_blocks.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace lynx::scheduler {

RequestBlocks::RequestBlocks(int prompt_tokens, int choices, int block_tokens)
    : block_tokens_(block_tokens),
      full_(prompt_tokens / block_tokens),
      tail_(prompt_tokens % block_tokens == 0 ? 0 : 1),
      prompt_tokens_(prompt_tokens),
      choices_(static_cast<std::size_t>(choices)) {}

int RequestBlocks::own_blocks_at(int tokens) const {
  return tokens <= prompt_tokens_ ? 0 : (tokens + block_tokens_ - 1) / block_tokens_ - full_;
}

int RequestBlocks::tail_sharers() const {
  return static_cast<int>(std::count_if(choices_.begin(), choices_.end(), [](const Choice& c) { return c.on_tail; }));
}

int RequestBlocks::blocks_at(int tokens) const {
  return tokens <= prompt_tokens_ ? prompt_blocks() : full_ + static_cast<int>(choices_.size()) * own_blocks_at(tokens);
}

int RequestBlocks::most_tokens_in(int blocks) const {
  if (prompt_blocks() > blocks) return 0;
  const int own = (blocks - full_) / static_cast<int>(choices_.size());
  const std::int64_t tokens = (std::int64_t{full_} + own) * block_tokens_;
  return static_cast<int>(std::clamp<std::int64_t>(tokens, prompt_tokens_, std::numeric_limits<int>::max()));
}

int RequestBlocks::held() const {
  bool any = false;
  bool tail = false;
  int own = 0;
  for (const Choice& choice : choices_) {
    any = any || choice.holds;
    tail = tail || choice.on_tail;
    own += choice.own;
  }
  return (any ? full_ : 0) + (tail ? 1 : 0) + own;
}

void RequestBlocks::take_prompt(int choice) {
  choices_[static_cast<std::size_t>(choice)] = {.holds = true, .on_tail = tail_ == 1, .own = 0};
}

int RequestBlocks::growth(int choice, int tokens) const {
  const Choice& c = choices_[static_cast<std::size_t>(choice)];
  const int target = own_blocks_at(tokens);
  if (target <= c.own) return 0;
  const bool takes_over = c.on_tail && tail_sharers() == 1;  // The last sharer writes in place.
  return target - c.own - (takes_over ? 1 : 0);
}

void RequestBlocks::grow(int choice, int tokens) {
  Choice& c = choices_[static_cast<std::size_t>(choice)];
  const int target = own_blocks_at(tokens);
  if (target <= c.own) return;
  c.own = target;
  c.on_tail = false;
}

int RequestBlocks::shrink(int choice, int tokens) {
  Choice& c = choices_[static_cast<std::size_t>(choice)];
  const int kept = std::min(c.own, own_blocks_at(tokens));
  return std::exchange(c.own, kept) - kept;
}

int RequestBlocks::growth_of_all(std::span<const int> tokens) const {
  int growth = held() == 0 ? prompt_blocks() : 0;
  bool tail_stays = false;  // Does any sharer of the tail block not write?
  bool tail_shared = false;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& c = choices_[i];
    const bool on_tail = c.on_tail || (!c.holds && tail_ == 1 && tokens[i] > 0);
    const int target = own_blocks_at(tokens[i]);
    tail_shared = tail_shared || on_tail;
    tail_stays = tail_stays || (on_tail && target <= c.own);
    growth += std::max(target - c.own, 0);
  }
  return growth - (tail_shared && !tail_stays ? 1 : 0);
}

void RequestBlocks::release(int choice) {
  choices_[static_cast<std::size_t>(choice)] = {};
}

}  // namespace lynx::scheduler
