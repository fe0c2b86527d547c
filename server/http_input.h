#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lynx::server {

/// Bytes read from a connection and not yet parsed. Taking them from the front costs linear time over all, however many requests
/// were pipelined in one go.
class HttpInput {
 public:
  void append(const char* bytes, std::size_t count) { bytes_.append(bytes, count); }
  bool empty() const { return size() == 0; }
  std::size_t size() const { return bytes_.size() - consumed_; }
  /// Valid until the next append() or consume().
  std::string_view view() const { return std::string_view(bytes_).substr(consumed_); }

  void consume(std::size_t count) {
    consumed_ += count;
    // Moving no more than was consumed since the last move keeps the sum linear, and the storage within twice what is held.
    if (consumed_ < bytes_.size() - consumed_) return;
    bytes_.erase(0, consumed_);
    consumed_ = 0;
  }

 private:
  std::string bytes_;
  std::size_t consumed_ = 0;
};

}  // namespace lynx::server
