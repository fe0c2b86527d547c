#pragma once

// What the data plane to each session really uses, for threads other than the link's.

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "transport/link.h"

namespace lynx::server {

class LinkInfos {
 public:
  /// The link's thread. Asks the link at the first call for a session and then once a second: transports are chosen with use.
  void refresh(std::uint64_t session, transport::PeerId peer, const transport::Link& link, std::int64_t now_us) {
    const std::lock_guard lock(mutex_);
    const auto [it, fresh] = shown_.try_emplace(session);
    if (!fresh && now_us - it->second.asked_us < kRefreshUs) return;
    it->second = {link.info(peer), now_us};
  }
  void erase(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    shown_.erase(session);
  }
  /// Any thread. Empty for a session that is not there.
  transport::LinkInfo of(std::uint64_t session) const {
    const std::lock_guard lock(mutex_);
    const auto it = shown_.find(session);
    return it == shown_.end() ? transport::LinkInfo{} : it->second.info;
  }

 private:
  static constexpr std::int64_t kRefreshUs = 1'000'000;
  struct Shown {
    transport::LinkInfo info;
    std::int64_t asked_us = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Shown> shown_;
};

}  // namespace lynx::server
