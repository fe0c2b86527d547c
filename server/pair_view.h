#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace lynx::server {

/// What /health and /metrics show of a node that is half of a pair. Any thread.
class PairView {
 public:
  virtual ~PairView() = default;
  virtual bool ready() const = 0;  ///< A transfer between the pair was proven.
  virtual nlohmann::ordered_json health() const = 0;
  virtual std::string metrics() const = 0;  ///< Text exposition format.
};

}  // namespace lynx::server
