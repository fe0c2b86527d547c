#include "common/secrets.h"

#include <cstddef>

namespace lynx {

bool equal_secrets(std::string_view shown, std::string_view known) {
  unsigned difference = shown.size() == known.size() ? 0 : 1;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    difference |= static_cast<unsigned char>(shown[i]) ^ static_cast<unsigned char>(known.empty() ? '\0' : known[i % known.size()]);
  }
  return difference == 0;
}

}  // namespace lynx
