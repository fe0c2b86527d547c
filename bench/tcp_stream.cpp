#include "bench/tcp_stream.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace lynx::bench {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

Status system_error(const char* what) {
  return {Code::kUnavailable, std::string(what) + ": " + std::strerror(errno)};
}

bool read_all(int fd, void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int fd, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::send(fd, at, bytes, MSG_NOSIGNAL);
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Result<Socket> tcp_listen(std::uint16_t* port) {
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener.fd() < 0 || bind(listener.fd(), generic, size) != 0 || listen(listener.fd(), 1) != 0 ||
      getsockname(listener.fd(), generic, &size) != 0) {
    return system_error("no TCP port");
  }
  *port = ntohs(address.sin_port);
  return listener;
}

Result<Socket> tcp_connect(const char* host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) return invalid_argument(std::string(host) + " is no IPv4 address");
  Socket stream(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (stream.fd() < 0 || connect(stream.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return system_error("TCP connection");
  }
  return stream;
}

Status tcp_serve(const Socket& listener) {
  const Socket stream(accept(listener.fd(), nullptr, nullptr));
  if (stream.fd() < 0) return system_error("accept");
  std::vector<char> buffer(kBufferBytes);
  for (std::uint64_t bytes = 0; read_all(stream.fd(), &bytes, sizeof bytes);) {
    while (bytes > 0) {
      const ssize_t got = ::read(stream.fd(), buffer.data(), std::min<std::uint64_t>(buffer.size(), bytes));
      if (got <= 0) return system_error("TCP stream");
      bytes -= static_cast<std::uint64_t>(got);
    }
    if (!write_all(stream.fd(), "k", 1)) return system_error("TCP stream");
  }
  return {};
}

Result<double> tcp_transfer(const Socket& stream, std::uint64_t bytes) {
  const std::vector<char> buffer(kBufferBytes, 'x');
  const auto start = std::chrono::steady_clock::now();
  bool sound = write_all(stream.fd(), &bytes, sizeof bytes);
  while (sound && bytes > 0) {
    const std::size_t piece = std::min<std::uint64_t>(buffer.size(), bytes);
    sound = write_all(stream.fd(), buffer.data(), piece);
    bytes -= piece;
  }
  char confirmation = 0;
  if (!sound || !read_all(stream.fd(), &confirmation, 1)) return system_error("TCP stream");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace lynx::bench
