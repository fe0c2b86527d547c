#include "tests/server/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>

namespace lynx::server::testing {
namespace {

constexpr int kDeadlineMs = 20'000;

std::size_t parse_size(std::string_view text, int base) {
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

}  // namespace

std::string ClientResponse::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return {};
}

HttpClient::HttpClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) close();
}

HttpClient::~HttpClient() {
  close();
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

void HttpClient::send_request(std::string_view method, std::string_view path, std::string_view body, std::string_view headers) {
  const std::string length = body.empty() ? "" : fmt::format("Content-Length: {}\r\n", body.size());
  send(fmt::format("{} {} HTTP/1.1\r\nHost: test\r\n{}{}\r\n{}", method, path, length, headers, body));
}

bool HttpClient::fill() {
  pollfd poll_fd{socket_, POLLIN, 0};
  if (socket_ < 0 || ::poll(&poll_fd, 1, kDeadlineMs) <= 0) return false;
  std::array<char, 65536> bytes;
  const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
  if (count <= 0) return false;
  buffer_.append(bytes.data(), static_cast<std::size_t>(count));
  return true;
}

std::string HttpClient::receive_until(std::string_view text) {
  while (buffer_.find(text) == std::string::npos && fill()) {
  }
  return buffer_;
}

std::optional<ClientResponse> HttpClient::receive(bool head_only) {
  const std::string_view kEnd = "\r\n\r\n";
  receive_until(kEnd);
  const auto end = buffer_.find(kEnd);
  if (end == std::string::npos) return std::nullopt;
  ClientResponse response;
  std::string_view head = std::string_view(buffer_).substr(0, end + 2);
  response.status = static_cast<int>(parse_size(head.substr(9, 3), 10));
  for (head = head.substr(head.find("\r\n") + 2); !head.empty(); head = head.substr(head.find("\r\n") + 2)) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    std::string name(line.substr(0, line.find(':')));
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
    response.headers.emplace_back(std::move(name), line.substr(std::min(line.find(':') + 2, line.size())));
  }
  buffer_.erase(0, end + kEnd.size());
  if (head_only || response.status == 100) return response;
  if (response.header("transfer-encoding") == "chunked") {
    for (;;) {
      receive_until("\r\n");
      const auto line_end = buffer_.find("\r\n");
      if (line_end == std::string::npos) return std::nullopt;
      const std::size_t size = parse_size(std::string_view(buffer_).substr(0, line_end), 16);
      while (buffer_.size() < line_end + 4 + size) {
        if (!fill()) return std::nullopt;
      }
      response.body += buffer_.substr(line_end + 2, size);
      buffer_.erase(0, line_end + 4 + size);
      if (size == 0) return response;
    }
  }
  const std::string length = response.header("content-length");
  if (length.empty()) {
    while (fill()) {
    }
    response.body = std::exchange(buffer_, {});
    return response;
  }
  const std::size_t size = parse_size(length, 10);
  while (buffer_.size() < size) {
    if (!fill()) return std::nullopt;
  }
  response.body = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return response;
}

bool HttpClient::closed_by_server() {
  pollfd poll_fd{socket_, POLLIN, 0};
  if (::poll(&poll_fd, 1, kDeadlineMs) <= 0) return false;
  char byte = 0;
  return ::recv(socket_, &byte, 1, 0) <= 0;
}

void HttpClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void HttpClient::half_close() {
  ::shutdown(socket_, SHUT_WR);
}

void HttpClient::reset() {
  const linger abort{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
  close();
}

void HttpClient::shrink_receive_buffer() {
  const int bytes = 4096;
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

ClientResponse fetch(int port, std::string_view method, std::string_view path, std::string_view body, std::string_view headers) {
  HttpClient client(port);
  client.send_request(method, path, body, headers);
  return client.receive(method == "HEAD").value_or(ClientResponse{});
}

std::vector<std::string> sse_data(std::string_view body) {
  std::vector<std::string> data;
  while (!body.empty()) {
    const std::string_view line = body.substr(0, body.find('\n'));
    body.remove_prefix(std::min(line.size() + 1, body.size()));
    if (line.starts_with("data: ")) data.emplace_back(line.substr(6));
  }
  return data;
}

}  // namespace lynx::server::testing
