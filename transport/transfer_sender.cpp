#include "transport/transfer_sender.h"

#include <algorithm>

namespace lynx::transport {

void TransferSender::add_unit(const UnitKey& unit, std::int64_t now_us) {
  if (!index_.emplace(place_of(unit), order_.size()).second) return;
  order_.push_back({unit, 0, 0, 0, 0, now_us});
  ++units_left_;
}

std::optional<UnitKey> TransferSender::unit_to_prepare() const {
  if (!lost_.empty() || next_unit_ == order_.size() || order_[next_unit_].bytes != 0) return std::nullopt;
  return order_[next_unit_].key;
}

bool TransferSender::has_sent(const UnitPlace& unit) const {
  const auto found = index_.find(unit);
  return found != index_.end() && order_[found->second].sent > 0;
}

void TransferSender::prepared(const PreparedUnit& coded) {
  Unit& unit = order_[next_unit_];
  unit.key.plane = coded.plane;
  unit.bytes = coded.bytes;
  unit.memory = coded.memory;
  begun_bytes_ += coded.bytes;
  ++coded_;
}

std::uint32_t TransferSender::ready_bytes() const {
  if (!lost_.empty()) return lost_.front().length;
  if (next_unit_ == order_.size()) return 0;
  return order_[next_unit_].bytes - order_[next_unit_].sent;
}

Chunk TransferSender::emit(Piece piece, bool resent, std::int64_t now_us) {
  const Unit& unit = order_[piece.unit];
  piece.sent_us = now_us;
  std::uint32_t sequence = next_sequence_++;
  in_flight_.emplace(sequence, piece);
  in_flight_bytes_ += piece.length;
  return {unit.key, unit.bytes, unit.memory, piece.offset, piece.length, sequence, resent};
}

std::optional<Chunk> TransferSender::next_chunk(std::uint32_t max_bytes, std::int64_t now_us) {
  if (max_bytes == 0 || ready_bytes() == 0) return std::nullopt;
  if (in_flight_.empty()) last_progress_us_ = now_us;
  if (!lost_.empty()) {
    Piece piece = lost_.front();
    lost_.pop_front();
    if (piece.length > max_bytes) {
      lost_.push_front({piece.unit, piece.offset + max_bytes, piece.length - max_bytes, piece.sent_us});
      piece.length = max_bytes;
    }
    return emit(piece, true, now_us);
  }
  Unit& unit = order_[next_unit_];
  Piece piece{next_unit_, unit.sent, std::min(max_bytes, unit.bytes - unit.sent), now_us};
  unit.sent += piece.length;
  if (unit.sent == unit.bytes) ++next_unit_;
  return emit(piece, false, now_us);
}

void TransferSender::on_acked(SequenceRange range, std::int64_t now_us, std::vector<std::uint32_t>* done) {
  auto it = in_flight_.lower_bound(range.first);
  while (it != in_flight_.end() && it->first <= range.last) {
    const Piece& piece = it->second;
    Unit& unit = order_[piece.unit];
    in_flight_bytes_ -= piece.length;
    begun_bytes_ -= piece.length;
    acked_bytes_ += piece.length;
    acked_.bytes += piece.length;
    acked_.newest_sent_us = std::max(acked_.newest_sent_us, piece.sent_us);
    unit.acked += piece.length;
    if (unit.acked == unit.bytes) {
      --units_left_;
      done->push_back(unit.memory);
    }
    last_progress_us_ = now_us;
    it = in_flight_.erase(it);
  }
  const auto is_done = [](const Unit& unit) { return unit.bytes != 0 && unit.acked == unit.bytes; };
  while (oldest_unit_ < order_.size() && is_done(order_[oldest_unit_])) ++oldest_unit_;
}

std::optional<std::int64_t> TransferSender::oldest_us() const {
  if (oldest_unit_ == order_.size()) return std::nullopt;
  return order_[oldest_unit_].added_us;
}

TransferSender::InFlight::iterator TransferSender::lose(InFlight::iterator it) {
  in_flight_bytes_ -= it->second.length;
  lost_.push_back(it->second);
  return in_flight_.erase(it);
}

bool TransferSender::on_rejected(std::uint32_t sequence) {
  auto it = in_flight_.find(sequence);
  if (it == in_flight_.end()) return false;
  lose(it);
  return true;
}

void TransferSender::on_missing(const UnitKey& unit, std::int64_t sent_before_us) {
  auto found = index_.find(place_of(unit));
  if (found == index_.end()) return;
  for (auto it = in_flight_.begin(); it != in_flight_.end();) {
    it = it->second.unit == found->second && it->second.sent_us < sent_before_us ? lose(it) : std::next(it);
  }
}

void TransferSender::restart() {
  for (auto it = in_flight_.begin(); it != in_flight_.end();) it = lose(it);
  next_sequence_ = 0;
}

std::vector<std::uint32_t> TransferSender::abandon() {
  std::vector<std::uint32_t> memory;
  for (const Unit& unit : order_) {
    if (unit.bytes != 0 && unit.acked != unit.bytes) memory.push_back(unit.memory);
  }
  order_.clear();
  index_.clear();
  in_flight_.clear();
  lost_.clear();
  next_unit_ = oldest_unit_ = coded_ = units_left_ = 0;
  in_flight_bytes_ = begun_bytes_ = 0;
  return memory;
}

}  // namespace lynx::transport
