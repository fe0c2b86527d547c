#include "common/units.h"

#include <array>
#include <charconv>
#include <cmath>

#include <spdlog/fmt/fmt.h>

namespace lynx {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array<Unit, 14> kUnits{{{"", 1},
                                       {"B", 1},
                                       {"KiB", 1024.0},
                                       {"MiB", 1048576.0},
                                       {"GiB", 1073741824.0},
                                       {"TiB", 1099511627776.0},
                                       {"Ki", 1024.0},
                                       {"Mi", 1048576.0},
                                       {"Gi", 1073741824.0},
                                       {"Ti", 1099511627776.0},
                                       {"KB", 1e3},
                                       {"MB", 1e6},
                                       {"GB", 1e9},
                                       {"TB", 1e12}}};

}  // namespace

Result<std::int64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{}) {
    while (rest != end && *rest == ' ') ++rest;
    std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
    for (const Unit& unit : kUnits) {
      if (suffix != unit.name) continue;
      double bytes = std::floor(number * unit.bytes);
      if (!(bytes >= 1 && bytes <= 4.6e18)) break;
      return static_cast<std::int64_t>(bytes);
    }
  }
  return invalid_argument(fmt::format("'{}' is not a size such as 512MiB or 2GiB", text));
}

std::string format_bytes(std::int64_t bytes) {
  double value = static_cast<double>(bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < 1048576) return fmt::format("{:.1f} KiB", value / 1024.0);
  if (bytes < 1073741824) return fmt::format("{:.1f} MiB", value / 1048576.0);
  return fmt::format("{:.2f} GiB", value / 1073741824.0);
}

}  // namespace lynx
