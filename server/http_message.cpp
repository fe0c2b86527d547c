#include "server/http_message.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>

namespace lynx::server {
namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Payload Too Large";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    default: return "Unknown";
  }
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return {};
}

bool decode_target(std::string_view target, std::string* path) {
  if (const auto scheme = target.find("://"); !target.starts_with('/') && scheme != std::string_view::npos) {
    const auto slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  target = target.substr(0, target.find_first_of("?#"));
  path->clear();
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path->push_back(target[i]);
      continue;
    }
    if (i + 2 >= target.size()) return false;
    const int high = hex_digit(target[i + 1]);
    const int low = hex_digit(target[i + 2]);
    if (high < 0 || low < 0 || high + low == 0) return false;
    path->push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return true;
}

std::string serialize_head(const HttpResponse& response, BodyFraming framing, bool keep_alive, std::int64_t unix_seconds) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nServer: lynx\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\nContent-Type: {}\r\n", response.status,
                  reason_phrase(response.status), fmt::gmtime(static_cast<std::time_t>(unix_seconds)), response.content_type);
  for (const auto& [key, value] : response.headers) head += fmt::format("{}: {}\r\n", key, value);
  switch (framing) {
    case BodyFraming::kLength:
    case BodyFraming::kHeadOnly: head += fmt::format("Content-Length: {}\r\n", response.body.size()); break;
    case BodyFraming::kChunked: head += "Transfer-Encoding: chunked\r\n"; break;
    case BodyFraming::kToEnd: break;
  }
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

}  // namespace lynx::server
