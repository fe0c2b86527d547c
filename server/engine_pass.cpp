#include "server/engine_pass.h"

#include <optional>

#include <spdlog/fmt/fmt.h>

#include "quant/plane_unit.h"

namespace lynx::server {
namespace {

// Makes positions start … start+count−1 writable for this sequence. Only the first block can be shared: a fork shares the prompt's
// blocks, and what comes after them is the choice's own.
Status make_room(const scheduler::PassItem& item, const Generation& generation, kv::BlockTable& blocks, Runner& runner) {
  std::optional<kv::BlockCopy> copy;
  if (!blocks.reserve(item.start + item.count) || !blocks.make_writable(item.start, &copy)) {
    return internal_error(
        fmt::format("request {}: the KV cache has fewer free blocks than were counted", generation.request.request_id));
  }
  if (copy) runner.copy_block(copy->from, copy->to);
  return {};
}

}  // namespace

Status PassBuilder::build(std::span<const scheduler::PassItem> pass, const Generations& generations, Runner& runner) {
  tokens_.clear();
  spans_.clear();
  logit_rows_.clear();
  for (const scheduler::PassItem& item : pass) {
    Generation& generation = *generations.at(item.sequence.request);
    const int choice = item.sequence.choice;
    kv::BlockTable& blocks = generation.at(choice).blocks;
    LYNX_RETURN_IF_ERROR(make_room(item, generation, blocks, runner));
    const int first_row = rows();
    for (int position = item.start; position < item.start + item.count; ++position) {
      tokens_.push_back(generation.token(choice, position));
    }
    int anchor_blocks = 0;
    if (item.kind == scheduler::PassKind::kDraft) {
      anchor_blocks = quant::coded_blocks(generation.prompt_tokens());
      profile_ = generation.profile;
    }
    spans_.push_back({blocks.blocks().data(), item.start, item.count, first_row, anchor_blocks});
    for (int row = rows() - item.logit_rows; row < rows(); ++row) logit_rows_.push_back(row);
  }
  return {};
}

}  // namespace lynx::server
