#include "scheduler/residual_window.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace lynx::scheduler {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kBucketUs = 20'000;
constexpr std::int64_t kRateUs = 2'000'000;
constexpr std::int64_t kRttUs = 10'000'000;
constexpr std::int64_t kSilenceUs = 500'000;  // Without an acknowledgement: not a slow link, but nothing to send.
constexpr std::size_t kSamplesMax = 1024;     // Of a round; more tell nothing new.
constexpr double kMostOfRate = 2;             // Whole units leave up to half of a window unused, and the rate is what was used.
constexpr double kShrinkShare = 0.5;          // Of the way to the target, so that one late round does not empty the link.
constexpr double kStartFactor = 2;    // A round, until a queue is seen: on a long path the target is little more than RTTmin.
constexpr double kProbeShare = 0.25;  // Of rate · RTTmin, and of the window: no queue is left.
constexpr std::uint64_t kChunksInWindow = 4;

}  // namespace

std::uint64_t ResidualWindow::first() const {
  return std::clamp(options_.first_bytes, options_.floor_bytes, options_.cap_bytes);
}

std::int64_t ResidualWindow::target_us() const {
  return rtt_min_us_ + std::min(options_.queue_us + rtt_min_us_ / 8, options_.queue_us_max);
}

std::uint64_t ResidualWindow::bounded(double bytes) const {
  const double most = std::min(static_cast<double>(options_.cap_bytes),
                               kMostOfRate * static_cast<double>(rate_) * static_cast<double>(target_us()) * 1e-6);
  return std::max(options_.floor_bytes, static_cast<std::uint64_t>(std::max(0.0, std::min(bytes, most))));
}

std::uint64_t ResidualWindow::overlap_bytes() const {
  return static_cast<std::uint64_t>(static_cast<double>(rate_) * static_cast<double>(rtt_min_us_) * 1e-6);
}

std::uint64_t ResidualWindow::window_bytes() const {
  if (!probe_since_us_) return window_;
  return std::max(options_.floor_bytes,
                  static_cast<std::uint64_t>(kProbeShare * static_cast<double>(std::min(window_, overlap_bytes()))));
}

std::uint32_t ResidualWindow::chunk_bytes() const {
  const std::uint64_t share = std::bit_floor(std::max<std::uint64_t>(1, window_bytes() / kChunksInWindow));
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share, options_.chunk_bytes_min, options_.chunk_bytes_max));
}

void ResidualWindow::on_acked(int lane, std::uint64_t bytes, std::int64_t newest_sent_us, std::int64_t now_us) {
  count(bytes, now_us);
  if (lane == 0) {
    last_anchor_us_ = now_us;
    delays_us_.clear();
    round_start_us_ = now_us;
  } else if (!last_anchor_us_ || newest_sent_us > *last_anchor_us_) {
    note_delay(std::max<std::int64_t>(1, now_us - newest_sent_us), now_us);
  }
}

// The most of the full buckets of the last 2 s. Time without any acknowledgement does not count: after a pause the link is what it
// was.
void ResidualWindow::count(std::uint64_t bytes, std::int64_t now_us) {
  const std::int64_t silence_us = now_us - last_ack_us_;
  last_ack_us_ = now_us;
  if (!buckets_.empty() && silence_us >= std::max(kSilenceUs, 4 * rtt_min_us_)) {
    for (Bucket& bucket : buckets_) bucket.start_us += silence_us;
    rtt_min_at_us_ += silence_us;
    buckets_.pop_back();
  }
  if (!buckets_.empty() && now_us - buckets_.back().start_us < buckets_.back().us) {
    buckets_.back().bytes += bytes;
    return;
  }
  while (!buckets_.empty() && now_us - buckets_.front().start_us > kRateUs) buckets_.pop_front();
  double most = 0;
  for (const Bucket& bucket : buckets_) most = std::max(most, static_cast<double>(bucket.bytes) / static_cast<double>(bucket.us));
  if (most > 0) rate_ = static_cast<std::uint64_t>(most * 1e6);
  // The first acknowledgement after a gap names what came at any time before, so it does not count.
  const bool goes_on = !buckets_.empty() && now_us - buckets_.back().start_us < 2 * buckets_.back().us;
  const std::int64_t start_us = goes_on ? buckets_.back().start_us + buckets_.back().us : now_us;
  buckets_.push_back({start_us, std::max(kBucketUs, rtt_min_us_), goes_on ? bytes : 0});
}

void ResidualWindow::note_delay(std::int64_t delay_us, std::int64_t now_us) {
  if (rtt_min_us_ == 0 || delay_us <= rtt_min_us_) {
    rtt_min_us_ = delay_us;
    rtt_min_at_us_ = now_us;
    probe_since_us_.reset();
  }
  if (probe_since_us_) {
    // What was sent before the probe is still full of the queue.
    if (now_us - *probe_since_us_ > target_us()) probe_least_us_ = std::min(probe_least_us_, delay_us);
    if (now_us - *probe_since_us_ > std::max(kBucketUs, 2 * target_us()) && probe_least_us_ != kNever) {
      rtt_min_us_ = probe_least_us_;
      rtt_min_at_us_ = now_us;
      probe_since_us_.reset();
      delays_us_.clear();
      round_start_us_ = now_us;
    }
    return;
  }
  if (now_us - rtt_min_at_us_ > kRttUs) return begin_probe(now_us);
  if (delays_us_.empty()) round_start_us_ = now_us;
  if (delays_us_.size() < kSamplesMax) delays_us_.push_back(delay_us);
  if (now_us - round_start_us_ >= std::max(kBucketUs, delay_us)) end_round(now_us);
}

void ResidualWindow::begin_probe(std::int64_t now_us) {
  probe_since_us_ = now_us;
  probe_least_us_ = kNever;
  delays_us_.clear();
}

void ResidualWindow::end_round(std::int64_t now_us) {
  if (rate_ == 0) return;  // The first bucket is not full.
  const auto middle = delays_us_.begin() + static_cast<std::ptrdiff_t>(delays_us_.size() / 2);
  std::nth_element(delays_us_.begin(), middle, delays_us_.end());
  const std::int64_t delay_us = *middle;
  delays_us_.clear();
  round_start_us_ = now_us;
  double factor = static_cast<double>(target_us()) / static_cast<double>(delay_us);
  starting_ = starting_ && delay_us < (rtt_min_us_ + target_us()) / 2;
  if (starting_) factor = std::max(factor, kStartFactor);
  if (factor < 1) factor = 1 - (1 - factor) * kShrinkShare;
  window_ = bounded(static_cast<double>(window_) * factor);
  // As small as it gets, and no better: it is the path that has become longer.
  if (window_ == options_.floor_bytes && delay_us > target_us() + (target_us() - rtt_min_us_)) {
    begin_probe(now_us);
    starting_ = true;
  }
}

}  // namespace lynx::scheduler
