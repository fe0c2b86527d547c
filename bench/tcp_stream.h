#pragma once

// One TCP stream as a measure of a link: what a program gets that only writes into a socket.

#include <cstdint>

#include "common/status.h"

namespace lynx::bench {

/// A descriptor that is closed with its owner.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// Listens on any free port of every interface; `port` is set to it. UNAVAILABLE with the system's reason.
Result<Socket> tcp_listen(std::uint16_t* port);
/// `host`: an IPv4 address.
Result<Socket> tcp_connect(const char* host, std::uint16_t port);
/// Waits for one connection and serves it to its end: every tcp_transfer() of the other side is read and confirmed.
Status tcp_serve(const Socket& listener);
/// Seconds until `bytes` bytes were written and the other end has confirmed to have read them.
Result<double> tcp_transfer(const Socket& stream, std::uint64_t bytes);

}  // namespace lynx::bench
