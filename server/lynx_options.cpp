#include "server/lynx_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "server/openai_fields.h"

namespace lynx::server {
namespace {

constexpr std::array<std::string_view, 5> kKeys{"transfer", "gap", "speculation", "provisional", "receipt"};

std::string field(std::string_view key) {
  return fmt::format("lynx.{}", key);
}

/// Of the `lynx` object; null where there is none, as for any field.
const Json* find(const Json& own, std::string_view key) {
  const auto it = own.find(key);
  return it == own.end() || it->is_null() ? nullptr : &*it;
}

std::string_view text_of(const Json& value) {
  return value.is_string() ? std::string_view(value.get_ref<const std::string&>()) : std::string_view();
}

bool read_flag(FieldReader& reader, const Json& own, std::string_view key) {
  const Json* value = find(own, key);
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  reader.fail(field(key), fmt::format("'{}' must be a boolean, not {}", field(key), json_kind(*value)));
  return false;
}

std::optional<TransferMode> read_transfer(FieldReader& reader, const Json& own) {
  const Json* value = find(own, "transfer");
  if (value == nullptr) return std::nullopt;
  const auto mode = parse_transfer_mode(text_of(*value));
  if (mode) return mode;
  std::string known;
  for (const TransferMode one : kTransferModes)
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", transfer_mode_name(one));
  reader.fail("lynx.transfer", fmt::format("'lynx.transfer' must be one of {}", known));
  return std::nullopt;
}

std::optional<GapMode> read_speculation(FieldReader& reader, const Json& own) {
  const Json* value = find(own, "speculation");
  if (value == nullptr) return std::nullopt;
  if (*value == true || *value == "on") return GapMode::kDraft;
  if (*value == false || *value == "off") return GapMode::kWait;
  reader.fail("lynx.speculation", "'lynx.speculation' must be true or \"on\", false or \"off\"");
  return std::nullopt;
}

std::optional<GapMode> read_gap(FieldReader& reader, const Json& own) {
  const auto speculation = read_speculation(reader, own);
  const Json* value = find(own, "gap");
  if (value == nullptr) return speculation;
  const auto gap = parse_gap_mode(text_of(*value));
  if (!gap) reader.fail("lynx.gap", "'lynx.gap' must be \"draft\" or \"wait\"");
  if (gap && speculation && *gap != *speculation) {
    reader.fail("lynx.speculation", fmt::format("'lynx.speculation' contradicts 'lynx.gap', which is \"{}\"", gap_mode_name(*gap)));
  }
  return gap;
}

}  // namespace

LynxOptions read_lynx_options(FieldReader& reader, bool stream) {
  LynxOptions options;
  const Json* const own = reader.find("lynx");
  if (own == nullptr) return options;
  if (!own->is_object()) {
    reader.fail("lynx", fmt::format("'lynx' must be an object, not {}", json_kind(*own)));
    return options;
  }
  for (const auto& [key, value] : own->items()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) continue;
    const std::string shown = key.substr(0, 64);
    reader.fail(field_error(field(shown), fmt::format("'{}' is not a known key of 'lynx'", shown), "unknown_parameter"));
  }
  options.transfer = read_transfer(reader, *own);
  options.gap = read_gap(reader, *own);
  options.provisional = read_flag(reader, *own, "provisional");
  options.receipt = read_flag(reader, *own, "receipt");
  if (options.provisional && !stream) {
    reader.fail("lynx.provisional", "'lynx.provisional' is only allowed when 'stream' is true");
  }
  return options;
}

}  // namespace lynx::server
