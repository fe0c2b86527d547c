#pragma once

// The HTTP face of a node that serves no clients: /ping, /health, /metrics and /version.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "server/http_call.h"
#include "server/http_message.h"
#include "server/metrics.h"

namespace lynx::server {

/// What the node shows of itself. Any thread.
class ProbeSource {
 public:
  virtual ~ProbeSource() = default;
  /// The body of /health; `*ready` decides between 200 and 503.
  virtual nlohmann::ordered_json health(bool* ready) const = 0;
  virtual std::string metrics() const = 0;
};

class ProbeApi final : public HttpHandler {
 public:
  /// `metrics` outlives the API's last request.
  explicit ProbeApi(ServerMetrics& metrics) : metrics_(metrics) {}

  /// nullptr: the model is loading. The source outlives the HTTP server.
  void set_source(const ProbeSource* source) { source_.store(source); }

  void handle(HttpRequest request, std::shared_ptr<Responder> responder) override;
  HttpResponse error(int status, std::string message, std::string_view request_id) override;

 private:
  void answer(const std::string& path, ApiCall& call) const;

  ServerMetrics& metrics_;
  std::atomic<const ProbeSource*> source_{nullptr};
};

}  // namespace lynx::server
