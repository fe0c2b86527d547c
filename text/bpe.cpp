#include "text/bpe.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "text/byte_alphabet.h"

namespace lynx::text {
namespace {

/// Up to here a scan over all pairs for each merge is faster than a heap.
constexpr std::size_t kShortPiece = 40;

std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 64;
  return text.size() <= kShown ? std::string(text) : std::string(text.substr(0, kShown)) + "…";
}

bool may_merge(TokenizerSpec::TokenKind kind) {
  return kind == TokenizerSpec::TokenKind::kNormal || kind == TokenizerSpec::TokenKind::kUserDefined;
}

}  // namespace

Result<BytePairEncoder> BytePairEncoder::create(const TokenizerSpec& spec, const TokenTable& tokens) {
  BytePairEncoder encoder(tokens, spec.merges.size());
  for (int byte = 0; byte < 256; ++byte) {
    const char spelled = static_cast<char>(byte);
    encoder.byte_ids_[static_cast<std::size_t>(byte)] = tokens.find(std::string_view(&spelled, 1));
  }
  LYNX_RETURN_IF_ERROR(encoder.add_merges(spec));
  encoder.mark_whole_pieces(spec);
  return encoder;
}

Status BytePairEncoder::add_merges(const TokenizerSpec& spec) {
  if (spec.merges.size() >= MergeTable::kNone) return invalid_argument(fmt::format("{} merges are too many", spec.merges.size()));
  std::uint32_t rank = 0;
  for (const auto& [left, right] : spec.merges) {
    std::array<std::int32_t, 3> ids{};
    const std::array<std::string, 3> spelled{left, right, left + right};
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto bytes = bytes_of_spelling(spelled[i]);
      ids[i] = bytes ? tokens_->find(*bytes) : -1;
      if (ids[i] < 0 || !may_merge(spec.tokens[static_cast<std::size_t>(ids[i])].kind)) {
        return invalid_argument(fmt::format("merge {} (\"{}\" \"{}\"): \"{}\" is not a token", rank, excerpt(left), excerpt(right),
                                            excerpt(spelled[i])));
      }
    }
    merges_.insert(ids[0], ids[1], {rank, ids[2]});
    ++rank;
  }
  return {};
}

void BytePairEncoder::mark_whole_pieces(const TokenizerSpec& spec) {
  whole_piece_.assign(spec.tokens.size(), false);
  BpeScratch scratch;
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < tokens_->size(); ++id) {
    const std::string_view bytes = tokens_->bytes_of(id);
    if (spec.tokens[static_cast<std::size_t>(id)].kind != TokenizerSpec::TokenKind::kNormal || tokens_->find(bytes) != id) continue;
    ids.clear();
    if (!spec.ignore_merges) merge(bytes, scratch, ids);
    whole_piece_[static_cast<std::size_t>(id)] = spec.ignore_merges || (ids.size() == 1 && ids[0] == id);
  }
}

void BytePairEncoder::encode(std::string_view piece, BpeScratch& scratch, std::vector<std::int32_t>& out) const {
  const std::int32_t id = tokens_->find(piece);
  if (id >= 0 && whole_piece_[static_cast<std::size_t>(id)]) {
    out.push_back(id);
  } else {
    merge(piece, scratch, out);
  }
}

void BytePairEncoder::merge(std::string_view piece, BpeScratch& scratch, std::vector<std::int32_t>& out) const {
  if (piece.size() <= kShortPiece) {
    merge_short(piece, out);
  } else {
    merge_long(piece, scratch, out);
  }
}

void BytePairEncoder::merge_short(std::string_view piece, std::vector<std::int32_t>& out) const {
  std::array<std::int32_t, kShortPiece> ids;
  std::array<MergeTable::Merge, kShortPiece> pairs;  // pairs[i]: of ids[i] and ids[i + 1]
  std::size_t count = 0;
  for (const char byte : piece) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id >= 0) ids[count++] = id;
  }
  for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = merges_.find(ids[i], ids[i + 1]);
  while (count > 1) {
    const auto best = std::min_element(pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(count - 1),
                                       [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (best->rank == MergeTable::kNone) break;
    const auto at = static_cast<std::size_t>(best - pairs.begin());
    ids[at] = best->id;
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(at + 2), ids.begin() + static_cast<std::ptrdiff_t>(count),
              ids.begin() + static_cast<std::ptrdiff_t>(at + 1));
    std::copy(best + 1, pairs.begin() + static_cast<std::ptrdiff_t>(count - 1), best);
    --count;
    if (at > 0) pairs[at - 1] = merges_.find(ids[at - 1], ids[at]);
    if (at + 1 < count) pairs[at] = merges_.find(ids[at], ids[at + 1]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
}

void BytePairEncoder::link_symbols(std::string_view piece, BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  symbols.reserve(piece.size());
  for (const char byte : piece) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id < 0) continue;
    const auto position = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({id, position - 1, position + 1});
  }
  if (!symbols.empty()) symbols.back().next = -1;
}

void BytePairEncoder::push_candidate(BpeScratch& scratch, std::int32_t position) const {
  if (position < 0) return;
  const auto& left = scratch.symbols[static_cast<std::size_t>(position)];
  if (left.next < 0) return;
  const auto& right = scratch.symbols[static_cast<std::size_t>(left.next)];
  const MergeTable::Merge merge = merges_.find(left.id, right.id);
  if (merge.rank == MergeTable::kNone) return;
  scratch.heap.push_back({merge.rank, position, left.id, right.id, merge.id});
}

void BytePairEncoder::merge_long(std::string_view piece, BpeScratch& scratch, std::vector<std::int32_t>& out) const {
  link_symbols(piece, scratch);
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(symbols.size()); ++i) push_candidate(scratch, i);
  std::make_heap(heap.begin(), heap.end(), BpeScratch::later);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), BpeScratch::later);
    const BpeScratch::Candidate best = heap.back();
    heap.pop_back();
    auto& left = symbols[static_cast<std::size_t>(best.position)];
    if (left.id != best.left || left.next < 0) continue;
    auto& right = symbols[static_cast<std::size_t>(left.next)];
    if (right.id != best.right) continue;

    left.id = best.merged;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = best.position;
    for (const std::int32_t position : {left.previous, best.position}) {
      const std::size_t before = heap.size();
      push_candidate(scratch, position);
      if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), BpeScratch::later);
    }
  }
  for (std::int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
    out.push_back(symbols[static_cast<std::size_t>(i)].id);
  }
}

}  // namespace lynx::text
