#pragma once

// Registered memory cut into slots of one unit each, shared by all sessions so that none of them, and no lane, can take what the
// others need. A peer that falls silent holds what it has.
//
// With kLanes slots a session at least, every account can have a slot at any time; with kLanes more so can the next session, as
// soon as it comes. One that comes right after that may wait until those above their share drop a slot; they get no others
// meanwhile. With fewer slots whoever comes first takes them. What a removed session still holds is missing until it is dropped.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "transport/link.h"
#include "transport/wire_header.h"

namespace lynx::server {

/// One lane of one session.
using SlotAccount = std::pair<std::uint64_t, transport::Lane>;

/// Not thread-safe.
class UnitSlots {
 public:
  using Index = std::uint32_t;

  /// Memory of `link` for as many slots as fit into `pool_bytes`. INVALID_ARGUMENT naming `pool`: not even two fit;
  /// RESOURCE_EXHAUSTED: no memory.
  static Result<std::span<std::byte>> allocate(transport::Link* link, std::string_view pool, std::uint64_t pool_bytes,
                                               std::size_t unit_bytes_max);

  /// As many slots as fit into `memory`, which is not owned.
  UnitSlots(std::span<std::byte> memory, std::size_t unit_bytes_max);

  /// There is a slot for each lane of one session more.
  bool serve_another_session() const { return slots_.size() >= held_.size() + transport::kLanes; }
  void add_session(std::uint64_t session);
  void remove_session(std::uint64_t session);  ///< Slots that it holds stay until they are dropped.

  /// A slot with one reference; nullopt when none is free for this account.
  std::optional<Index> take(const SlotAccount& account);
  void hold(Index index) { ++slots_[index].references; }  ///< One reference more.
  /// One reference less. True: the slot is free now.
  bool drop(Index index);

  std::span<std::byte> bytes(Index index) const { return memory_.subspan(index * slot_bytes_, slot_bytes_); }
  std::size_t size() const { return slots_.size(); }
  std::size_t memory_bytes() const { return memory_.size(); }
  std::size_t in_use() const { return in_use_.load(std::memory_order_relaxed); }  ///< Any thread.

 private:
  struct Slot {
    SlotAccount account;
    std::uint32_t references = 0;
  };

  bool may_take(const SlotAccount& account) const;

  std::span<std::byte> memory_;
  std::size_t slot_bytes_;
  std::vector<Slot> slots_;
  std::vector<Index> free_;
  std::atomic<std::size_t> in_use_{0};
  std::map<SlotAccount, std::size_t> held_;  ///< Of the sessions that are there.
};

}  // namespace lynx::server
