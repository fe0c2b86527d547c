#include "transport/transfer_sender.h"

#include <algorithm>

namespace lynx::transport {

void TransferSender::add_unit(const UnitKey& unit, std::uint32_t bytes) {
  if (bytes == 0 || !index_.emplace(unit, order_.size()).second) return;
  order_.push_back({unit, bytes, 0, 0});
  ++units_left_;
  remaining_bytes_ += bytes;
}

Chunk TransferSender::emit(const Piece& piece, bool resent, std::int64_t now_us) {
  const Unit& unit = order_[piece.unit];
  if (in_flight_.empty()) last_progress_us_ = now_us;
  std::uint32_t sequence = next_sequence_++;
  in_flight_.emplace(sequence, piece);
  in_flight_bytes_ += piece.length;
  return {unit.key, unit.bytes, piece.offset, piece.length, sequence, resent};
}

std::optional<Chunk> TransferSender::next_chunk(std::uint32_t max_bytes, std::int64_t now_us) {
  if (max_bytes == 0) return std::nullopt;
  if (!lost_.empty()) {
    Piece piece = lost_.front();
    lost_.pop_front();
    if (piece.length > max_bytes) {
      lost_.push_front({piece.unit, piece.offset + max_bytes, piece.length - max_bytes});
      piece.length = max_bytes;
    }
    return emit(piece, true, now_us);
  }
  if (next_unit_ == order_.size()) return std::nullopt;
  Unit& unit = order_[next_unit_];
  Piece piece{next_unit_, unit.sent, std::min(max_bytes, unit.bytes - unit.sent)};
  unit.sent += piece.length;
  if (unit.sent == unit.bytes) ++next_unit_;
  return emit(piece, false, now_us);
}

void TransferSender::on_acked(SequenceRange range, std::int64_t now_us, std::vector<UnitKey>* done) {
  auto it = in_flight_.lower_bound(range.first);
  while (it != in_flight_.end() && it->first <= range.last) {
    const Piece& piece = it->second;
    Unit& unit = order_[piece.unit];
    in_flight_bytes_ -= piece.length;
    remaining_bytes_ -= piece.length;
    unit.acked += piece.length;
    if (unit.acked == unit.bytes) {
      --units_left_;
      done->push_back(unit.key);
    }
    last_progress_us_ = now_us;
    it = in_flight_.erase(it);
  }
}

void TransferSender::on_rejected(std::uint32_t sequence) {
  auto it = in_flight_.find(sequence);
  if (it == in_flight_.end()) return;
  in_flight_bytes_ -= it->second.length;
  lost_.push_back(it->second);
  in_flight_.erase(it);
}

void TransferSender::on_missing(const UnitKey& unit) {
  auto found = index_.find(unit);
  if (found == index_.end()) return;
  // What is in flight for it never arrived (the receiver asks only after a silence), so it counts as lost.
  for (auto it = in_flight_.begin(); it != in_flight_.end();) {
    if (it->second.unit != found->second) {
      ++it;
      continue;
    }
    in_flight_bytes_ -= it->second.length;
    lost_.push_back(it->second);
    it = in_flight_.erase(it);
  }
}

void TransferSender::restart() {
  for (const auto& [sequence, piece] : in_flight_) lost_.push_back(piece);
  in_flight_.clear();
  in_flight_bytes_ = 0;
  next_sequence_ = 0;
}

}  // namespace lynx::transport
