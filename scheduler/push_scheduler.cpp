#include "scheduler/push_scheduler.h"

#include <algorithm>
#include <utility>

namespace lynx::scheduler {

void PushScheduler::set_window(PushPeer peer, int lane, std::uint64_t bytes) {
  peers_[peer].lanes[lane].window = bytes;
}

void PushScheduler::set_chunk(PushPeer peer, int lane, std::uint32_t bytes) {
  peers_[peer].lanes[lane].chunk = bytes;
}

void PushScheduler::set_overlap(PushPeer peer, std::uint64_t bytes) {
  peers_[peer].overlap = bytes;
}

void PushScheduler::remove_peer(PushPeer peer) {
  peers_.erase(peer);
}

void PushScheduler::set_load(PushTicket ticket, int lane, const PushLoad& load) {
  auto [it, is_new] = loads_.try_emplace({lane, ticket});
  if (!is_new) {
    Lane& before = lane_of(it->second, lane);
    before.in_flight -= it->second.in_flight_bytes;
    before.begun -= it->second.begun_bytes;
  }
  it->second = load;
  Lane& after = lane_of(load, lane);
  after.in_flight += load.in_flight_bytes;
  after.begun += load.begun_bytes;
}

void PushScheduler::remove(PushTicket ticket) {
  for (int lane = 0; lane < kPushLanes; ++lane) {
    auto it = loads_.find({lane, ticket});
    if (it == loads_.end()) continue;
    Lane& totals = lane_of(it->second, lane);
    totals.in_flight -= it->second.in_flight_bytes;
    totals.begun -= it->second.begun_bytes;
    loads_.erase(it);
  }
}

void PushScheduler::hold_new_units(PushPeer peer, int lane) {
  peers_[peer].lanes[lane].held = true;
}

bool PushScheduler::release_held() {
  bool any = false;
  for (auto& [peer, state] : peers_) {
    for (Lane& lane : state.lanes) any = std::exchange(lane.held, false) || any;
  }
  return any;
}

// Something could be sent if the window allowed it.
bool PushScheduler::waits(const PushLoad& load, const Lane& lane) {
  return load.ready_bytes > 0 || (load.new_unit_bytes > 0 && !lane.held);
}

bool PushScheduler::goes_before(const LoadKey& a, const PushLoad& load_a, const LoadKey& b, const PushLoad& load_b) {
  if (a.first != b.first) return a.first < b.first;
  if (a.first == 0 && load_a.remaining_bytes != load_b.remaining_bytes) return load_a.remaining_bytes < load_b.remaining_bytes;
  return a.second < b.second;
}

// Bytes that the window lets this load send now. With nothing in flight something always goes, if only a part of the window's size:
// a unit larger than the window must get through too.
std::uint32_t PushScheduler::allowance(const PushLoad& load, const Lane& lane) const {
  const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::min(chunk_bytes_, lane.chunk), lane.window));
  if (load.ready_bytes > 0) {
    const std::uint32_t piece = std::min(load.ready_bytes, most);
    return lane.in_flight + piece <= lane.window ? piece : 0;
  }
  const bool fits = lane.begun == 0 || lane.begun + load.new_unit_bytes <= lane.window;
  return fits ? std::min(load.new_unit_bytes, most) : 0;
}

std::set<PushPeer> PushScheduler::peers_over_age(std::int64_t now_us) const {
  std::set<PushPeer> over;
  for (auto it = loads_.lower_bound({1, 0}); it != loads_.end(); ++it) {
    const PushLoad& load = it->second;
    if (load.oldest_us != PushLoad::kNoAge && now_us - load.oldest_us > residual_age_us_) over.insert(load.peer);
  }
  return over;
}

std::optional<PushDecision> PushScheduler::next(std::int64_t now_us) const {
  std::map<LoadKey, PushLoad>::const_iterator best = loads_.end();
  std::uint32_t best_bytes = 0;
  std::set<PushPeer> waits_high;
  const std::set<PushPeer> over_age = peers_over_age(now_us);
  for (auto it = loads_.begin(); it != loads_.end(); ++it) {
    const auto& [key, load] = *it;
    if (key.first != 0 && best != loads_.end() && best->first.first == 0) break;
    const Peer& peer = peers_.at(load.peer);
    const Lane& lane = peer.lanes[key.first];
    if (!waits(load, lane)) continue;
    if (key.first == 0 && !load.begun && over_age.count(load.peer) != 0) continue;
    if (key.first == 0) waits_high.insert(load.peer);
    if (key.first != 0 && (waits_high.count(load.peer) != 0 || peer.lanes[0].in_flight > peer.overlap)) continue;
    const std::uint32_t bytes = allowance(load, lane);
    if (bytes == 0 || (best != loads_.end() && !goes_before(key, load, best->first, best->second))) continue;
    best = it;
    best_bytes = bytes;
  }
  if (best == loads_.end()) return std::nullopt;
  return PushDecision{best->first.second, best->first.first, best_bytes, best->second.ready_bytes == 0};
}

}  // namespace lynx::scheduler
