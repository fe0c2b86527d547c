#pragma once

// What the HTTP server and the handlers exchange: plain values, no socket and no library type.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lynx::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// A request whose head and body have been read completely and within the limits.
struct HttpRequest {
  std::string method;
  std::string path;  ///< Percent-decoded, without the query.
  HttpHeaders headers{};
  std::string body{};

  /// The first value of a header (names compare without case); empty when absent.
  std::string_view header(std::string_view name) const;
};

/// A whole response, or the head of a streamed one (then `body` is unused).
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers{};
  std::string body{};
  bool close = false;  ///< End the connection after this response.
};

/// How the body of a response is framed on the wire.
enum class BodyFraming {
  kLength,    ///< Content-Length; the body follows.
  kHeadOnly,  ///< Content-Length of a body that is not sent (HEAD).
  kChunked,   ///< Streamed, HTTP/1.1.
  kToEnd,     ///< Streamed, HTTP/1.0: the body ends with the connection.
};

/// Splits a request target ("/a%20b?x=1", "http://host/a") into the decoded path; false when an escape is broken or holds a NUL.
bool decode_target(std::string_view target, std::string* path);

/// The status line and headers, ready for the wire. `keep_alive` decides the Connection header; `unix_seconds` is the Date.
std::string serialize_head(const HttpResponse& response, BodyFraming framing, bool keep_alive, std::int64_t unix_seconds);

/// Answers one request; given to the handler, may be kept and called from any thread. Exactly one of send() or the stream calls
/// produces the response. When the client is gone, calls do nothing.
class Responder {
 public:
  virtual ~Responder() = default;

  /// The whole response. False when a stream has already begun (by a heartbeat): then the failure has to be told inside it.
  virtual bool send(HttpResponse response) = 0;

  /// Sends the head of a streamed response; later calls do nothing.
  virtual void begin_stream(HttpResponse head) = 0;
  /// One piece of the stream, flushed by itself. False once the client is gone or its bounded buffer has overflowed: then the
  /// response is aborted, and so is the connection.
  virtual bool write(std::string piece) = 0;
  /// write() for what came into being all at once, whoever reads it (an echoed prompt): not held against the client's speed, so the
  /// caller bounds it. Like a whole response, it has one write timeout to be taken.
  virtual bool write_bulk(std::string piece) = 0;
  virtual void end_stream() = 0;

  /// Whenever nothing was written for a while, begins the stream with `head` (if it has not begun) and writes `comment`.
  virtual void set_heartbeat(HttpResponse head, std::string comment) = 0;

  /// Runs `callback` on the server's I/O thread when the client goes away, its buffer overflows or the server stops before the
  /// response is complete; at once if that has happened. At most once. Dropped when the response is complete.
  virtual void on_abort(std::function<void()> callback) = 0;
  virtual bool aborted() const = 0;
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  /// Called on the I/O thread; must not block. Every request is answered through its responder, now or later.
  virtual void handle(HttpRequest request, std::shared_ptr<Responder> responder) = 0;
  /// What to answer when the server itself refuses a request (malformed, too large, too slow…). `request_id` is the client's
  /// X-Request-Id as far as it is known. I/O thread.
  virtual HttpResponse error(int status, std::string message, std::string_view request_id) = 0;
};

/// Runs tasks on some thread, in order of arrival.
class TaskRunner {
 public:
  virtual ~TaskRunner() = default;
  virtual void post(std::function<void()> task) = 0;
};

}  // namespace lynx::server
