#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lynx::server::testing {

struct ClientResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  ///< Names in lower case.
  std::string body;                                          ///< Without chunk framing.

  std::string header(std::string_view lower_case_name) const;
};

/// A blocking client on a raw socket, for well-formed and for broken requests. Every wait ends after a generous deadline, which
/// counts as the connection's end.
class HttpClient {
 public:
  explicit HttpClient(int port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// False when the peer no longer takes bytes.
  bool send(std::string_view bytes);
  void send_request(std::string_view method, std::string_view path, std::string_view body = {}, std::string_view headers = {});
  /// The next response; nullopt when the connection ended before a whole one. `head_only`: the answer to HEAD.
  std::optional<ClientResponse> receive(bool head_only = false);
  /// Reads until `text` has been seen; everything read so far and not consumed.
  std::string receive_until(std::string_view text);
  /// True once the server has closed, with nothing left to read.
  bool closed_by_server();

  void close();       ///< FIN.
  void half_close();  ///< FIN of our side only.
  void reset();       ///< RST.
  void shrink_receive_buffer();

 private:
  bool fill();

  int socket_ = -1;
  std::string buffer_;
};

/// One request on its own connection.
ClientResponse fetch(int port, std::string_view method, std::string_view path, std::string_view body = {},
                     std::string_view headers = {});

/// The payloads of the "data:" lines of an event stream.
std::vector<std::string> sse_data(std::string_view body);

}  // namespace lynx::server::testing
