#include "server/api_keys.h"

#include <algorithm>

#include "common/secrets.h"

namespace lynx::server {

bool ApiKeys::allow(std::string_view header) const {
  if (keys_.empty()) return true;
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() <= kScheme.size()) return false;
  std::string scheme(header.substr(0, kScheme.size()));
  std::transform(scheme.begin(), scheme.end(), scheme.begin(), [](char c) { return static_cast<char>(c | 0x20); });
  if (scheme != kScheme) return false;
  const std::string_view key = header.substr(kScheme.size());
  bool found = false;
  for (const std::string& known : keys_) found = equal_secrets(key, known) || found;
  return found;
}

}  // namespace lynx::server
