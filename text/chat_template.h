#pragma once

// Chat templates: the Jinja subset that real templates use, interpreted with bounded steps, depth and output.

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/status.h"

namespace lynx::text {

struct RenderOptions {
  /// The local time that strftime_now prints; the system's when empty.
  std::optional<std::tm> now;
};

/// A parsed template. Immutable; any thread may render.
class ChatTemplate {
 public:
  /// Parses once, at start. An unsupported construct is UNIMPLEMENTED, naming line and construct; a syntax error INVALID_ARGUMENT
  /// with the line.
  static Result<ChatTemplate> parse(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// Renders with `variables` (a JSON object: messages, add_generation_prompt, bos_token, eos_token, tools, …) as globals, in the
  /// environment that `transformers` uses (trim_blocks, lstrip_blocks). It passes tools and documents as null when a request has
  /// none; templates may tell that from an absent variable. raise_exception(…) is INVALID_ARGUMENT with the template's message,
  /// unchanged; a run-time type error INVALID_ARGUMENT with the line; a bound that is reached (steps, depth, memory, output bytes)
  /// RESOURCE_EXHAUSTED; the rare construct that only shows at run time (printing a function, a format specification)
  /// UNIMPLEMENTED.
  Result<std::string> render(const nlohmann::ordered_json& variables, const RenderOptions& options = {}) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx::text
