#pragma once

// A path between a sender and a receiver for tests of windows: a queue that is emptied at some rate, then a delay, then
// acknowledgements that wait a little for each other, and now and then a receiver that does not get its turn. Time in µs, no clock.

#include <cstdint>
#include <deque>
#include <limits>
#include <random>

namespace lynx::scheduler {

class LinkModel {
 public:
  struct Path {
    double bytes_per_us = 125;
    std::int64_t delay_us = 0;      ///< There and back, without queues.
    std::int64_t ack_us = 500;      ///< Chunks of so long are acknowledged together.
    std::int64_t stall_us_max = 0;  ///< A receiver sleeps up to so long …
    int stalls_per_s = 0;           ///< … about so often.
  };
  struct Ack {
    std::uint64_t bytes[2] = {};
    std::int64_t newest_sent_us[2] = {};
  };

  LinkModel(const Path& path, std::uint32_t seed) : path_(path), random_(seed) {}

  void set_rate(double bytes_per_us) { path_.bytes_per_us = bytes_per_us; }
  void set_delay(std::int64_t delay_us) { path_.delay_us = delay_us; }

  /// `bytes` of a lane leave. Time must not go back. Returns how long they wait before the first of them is on the wire.
  std::int64_t send(int lane, std::uint64_t bytes, std::int64_t now_us) {
    const double start = std::max(static_cast<double>(now_us), free_us_);
    free_us_ = start + static_cast<double>(bytes) / path_.bytes_per_us;
    in_flight_[lane] += bytes;
    const auto arrives = std::max(static_cast<std::int64_t>(free_us_) + path_.delay_us, last_arrival_us_);
    last_arrival_us_ = arrives;
    on_way_.push_back({lane, bytes, now_us, arrives});
    return static_cast<std::int64_t>(start) - now_us;
  }

  /// When the next acknowledgement comes; max() while nothing is on its way.
  std::int64_t next_ack_us() {
    if (on_way_.empty()) return std::numeric_limits<std::int64_t>::max();
    if (ack_at_us_ == 0) {
      ack_at_us_ = on_way_.front().arrives_us + path_.ack_us;
      const double chance = path_.stalls_per_s * static_cast<double>(path_.ack_us) * 1e-6;
      if (path_.stall_us_max > 0 && std::uniform_real_distribution<double>(0, 1)(random_) < chance) {
        ack_at_us_ += std::uniform_int_distribution<std::int64_t>(0, path_.stall_us_max)(random_);
      }
    }
    return ack_at_us_;
  }

  /// The acknowledgement that comes at next_ack_us(), which is now.
  Ack take_ack(std::int64_t now_us) {
    Ack ack;
    for (; !on_way_.empty() && on_way_.front().arrives_us <= now_us; on_way_.pop_front()) {
      const Piece& piece = on_way_.front();
      ack.bytes[piece.lane] += piece.bytes;
      ack.newest_sent_us[piece.lane] = piece.sent_us;
      in_flight_[piece.lane] -= piece.bytes;
    }
    ack_at_us_ = 0;
    return ack;
  }

  std::uint64_t in_flight(int lane) const { return in_flight_[lane]; }

 private:
  struct Piece {
    int lane;
    std::uint64_t bytes;
    std::int64_t sent_us;
    std::int64_t arrives_us;
  };

  Path path_;
  std::mt19937 random_;
  double free_us_ = 0;  ///< The queue is empty from then on.
  std::int64_t last_arrival_us_ = 0;
  std::int64_t ack_at_us_ = 0;  ///< 0: not known.
  std::deque<Piece> on_way_;
  std::uint64_t in_flight_[2] = {};
};

}  // namespace lynx::scheduler
