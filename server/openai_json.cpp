#include "server/openai_json.h"

#include <fmt/format.h>

#include <unordered_set>
#include <utility>
#include <vector>

namespace lynx::server {
namespace {

/// Builds the document and refuses what would cost too much. nlohmann's own builder looks a key up linearly each time.
class BoundedBuilder final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(Json(nullptr)); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(Json(value)); }
  bool string(string_t& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    if (!levels_.back().keys.insert(value).second) return fail(fmt::format("duplicate key \"{}\"", value.substr(0, 64)));
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string_view what = error.what();
    const auto detail = what.rfind("parse error at ");
    message_ = detail == std::string_view::npos ? fmt::format("invalid JSON at byte {}", position)
                                                : "invalid JSON: " + std::string(what.substr(detail));
    return false;
  }

  Json take() { return std::move(root_); }
  const std::string& message() const { return message_; }

 private:
  struct Level {
    Json* container;
    std::unordered_set<std::string> keys;
  };

  bool fail(std::string message) {
    message_ = std::move(message);
    return false;
  }

  /// Where the value went; pointers into a container stay valid while its last element is being filled.
  Json* place(Json value) {
    if (levels_.empty()) return &(root_ = std::move(value));
    Json& container = *levels_.back().container;
    if (auto* array = container.get_ptr<Json::array_t*>()) return &array->emplace_back(std::move(value));
    auto& members = *container.get_ptr<Json::object_t*>();
    return &static_cast<Json::object_t::Container&>(members).emplace_back(std::move(key_), std::move(value)).second;
  }

  bool add(Json value) {
    if (++nodes_ > kMaxJsonNodes) return fail(fmt::format("more than {} JSON values", kMaxJsonNodes));
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (levels_.size() >= kMaxJsonDepth) return fail(fmt::format("JSON nested deeper than {} levels", kMaxJsonDepth));
    if (++nodes_ > kMaxJsonNodes) return fail(fmt::format("more than {} JSON values", kMaxJsonNodes));
    levels_.push_back({place(std::move(value)), {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Level> levels_;
  std::string key_;
  std::string message_;
  std::size_t nodes_ = 0;
};

}  // namespace

ApiResult<Json> parse_json_object(std::string_view text) {
  BoundedBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return plain_error(400, builder.message(), "invalid_json");
  Json json = builder.take();
  if (!json.is_object()) return plain_error(400, "the request body must be a JSON object", "invalid_json");
  return json;
}

std::string dump_json(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lynx::server
