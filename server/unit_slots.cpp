#include "server/unit_slots.h"

#include <algorithm>
#include <string>

namespace lynx::server {

using transport::kLanes;
using transport::Lane;

namespace {

// Whole cache lines.
std::size_t slot_bytes(std::size_t unit_bytes_max) {
  return (unit_bytes_max + 63) / 64 * 64;
}

}  // namespace

Result<std::span<std::byte>> UnitSlots::allocate(transport::Link* link, std::string_view pool, std::uint64_t pool_bytes,
                                                 std::size_t unit_bytes_max) {
  const std::size_t slot = slot_bytes(unit_bytes_max);
  if (unit_bytes_max == 0 || pool_bytes < 2 * slot) {
    return invalid_argument(std::string(pool) + " pool of " + std::to_string(pool_bytes) + " bytes does not hold two units of " +
                            std::to_string(unit_bytes_max) + " bytes");
  }
  return link->allocate(pool_bytes / slot * slot);
}

UnitSlots::UnitSlots(std::span<std::byte> memory, std::size_t unit_bytes_max)
    : memory_(memory), slot_bytes_(slot_bytes(unit_bytes_max)), slots_(memory.size() / slot_bytes_) {
  for (std::size_t index = slots_.size(); index > 0; --index) free_.push_back(static_cast<Index>(index - 1));
}

void UnitSlots::add_session(std::uint64_t session) {
  for (int lane = 0; lane < kLanes; ++lane) held_.try_emplace({session, static_cast<Lane>(lane)}, 0);
}

void UnitSlots::remove_session(std::uint64_t session) {
  for (int lane = 0; lane < kLanes; ++lane) held_.erase({session, static_cast<Lane>(lane)});
}

// Half of all slots are shares; the other half goes to whoever comes first.
bool UnitSlots::may_take(const SlotAccount& account) const {
  auto own = held_.find(account);
  if (free_.empty() || own == held_.end()) return false;
  const std::size_t share = std::max<std::size_t>(1, slots_.size() / (2 * (held_.size() + kLanes)));
  if (own->second < share) return true;
  std::size_t reserved = kLanes * share;  // For the next session.
  for (const auto& [other, held] : held_) {
    if (other != account) reserved += share - std::min(share, held);
  }
  return free_.size() > reserved;
}

std::optional<UnitSlots::Index> UnitSlots::take(const SlotAccount& account) {
  if (!may_take(account)) return std::nullopt;
  const Index index = free_.back();
  free_.pop_back();
  in_use_.store(slots_.size() - free_.size(), std::memory_order_relaxed);
  slots_[index] = {account, 1};
  ++held_[account];
  return index;
}

bool UnitSlots::drop(Index index) {
  Slot& slot = slots_[index];
  if (--slot.references > 0) return false;
  auto account = held_.find(slot.account);
  if (account != held_.end() && account->second > 0) --account->second;
  free_.push_back(index);
  in_use_.store(slots_.size() - free_.size(), std::memory_order_relaxed);
  return true;
}

}  // namespace lynx::server
