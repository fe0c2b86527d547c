#pragma once

// What the two ends of a control-plane stream share: where the secret stands, and messages that wait for the one write that gRPC
// allows at a time.

#include <cstddef>
#include <deque>
#include <utility>

namespace lynx::server {

/// The metadata key under which a decode node shows the pair secret.
inline constexpr const char* kPairSecretKey = "lynx-pair-secret";

/// Not thread-safe: under its stream's lock.
template <class Message>
class WriteQueue {
 public:
  /// Beyond this a peer does not read, and its stream is given up.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

  bool overflows() const { return bytes_ > kMostBytes; }

  /// The message to write now; nullptr while another is under way.
  const Message* push(Message message) {
    bytes_ += message.ByteSizeLong();
    queue_.push_back(std::move(message));
    return queue_.size() == 1 ? &queue_.front() : nullptr;
  }

  /// The write of the front is done; the next one.
  const Message* written() {
    bytes_ -= queue_.front().ByteSizeLong();
    queue_.pop_front();
    return queue_.empty() ? nullptr : &queue_.front();
  }

 private:
  std::deque<Message> queue_;
  std::size_t bytes_ = 0;
};

}  // namespace lynx::server
