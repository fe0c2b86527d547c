#include "server/api_keys.h"

#include <algorithm>

namespace lynx::server {
namespace {

/// Takes the same time whatever the keys hold; only their lengths show.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? '\0' : b[i % b.size()]);
  }
  return difference == 0;
}

}  // namespace

bool ApiKeys::allow(std::string_view header) const {
  if (keys_.empty()) return true;
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() <= kScheme.size()) return false;
  std::string scheme(header.substr(0, kScheme.size()));
  std::transform(scheme.begin(), scheme.end(), scheme.begin(), [](char c) { return static_cast<char>(c | 0x20); });
  if (scheme != kScheme) return false;
  const std::string_view key = header.substr(kScheme.size());
  bool found = false;
  for (const std::string& known : keys_) found = equal_in_constant_time(key, known) || found;
  return found;
}

}  // namespace lynx::server
