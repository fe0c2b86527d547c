#pragma once

// Links between nodes of one process, each with a real progress thread: what the simulator cannot show, races between commands and
// the link's thread, shows here under ThreadSanitizer.

#include <condition_variable>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/link.h"

namespace lynx::sim {

class ThreadLink;

/// Finds links by address. Outlives them.
struct ThreadSwitch {
  std::mutex mutex;
  std::map<std::string, ThreadLink*> links;
};

class ThreadLink final : public transport::Link {
 public:
  ThreadLink(ThreadSwitch* network, std::string name);
  ~ThreadLink() override;

  transport::LinkAddress address() const override { return {{name_, name_}}; }
  std::string library_version() const override { return "threads"; }
  Result<std::span<std::byte>> allocate(std::size_t bytes) override { return std::span<std::byte>(memory_.emplace_back(bytes)); }
  void start(transport::LinkHandler* handler) override;
  void stop() override;
  void wake() override;
  Result<transport::PeerId> connect(const transport::LinkAddress& peer) override;
  void disconnect(transport::PeerId peer) override { peers_.erase(peer); }
  void send(transport::PeerId peer, transport::Lane lane, const transport::WireBytes& header, std::span<const std::byte> payload,
            std::uint64_t token) override;
  transport::LinkInfo info(transport::PeerId) const override { return {"threads", "queue", "memory"}; }

 private:
  struct Message {
    transport::Lane lane;
    transport::WireBytes header;
    std::vector<std::byte> payload;
  };

  void run();
  void deliver(Message message);

  ThreadSwitch* network_;
  std::string name_;
  transport::LinkHandler* handler_ = nullptr;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> inbox_;
  bool woken_ = false;
  bool stopping_ = false;
  // Progress thread.
  std::vector<std::vector<std::byte>> memory_;
  std::map<transport::PeerId, std::string> peers_;
  std::deque<std::uint64_t> sent_;
  transport::PeerId next_peer_ = 1;
};

}  // namespace lynx::sim
