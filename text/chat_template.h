#pragma once

// Chat templates: the Jinja subset that real templates use, interpreted with bounded steps, depth and output.

#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/status.h"

namespace lynx::text {

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
  /// environment that `transformers` uses (trim_blocks, lstrip_blocks). raise_exception(…) and a run-time type error are
  /// INVALID_ARGUMENT with the template's message; a bound that is reached (steps, depth, output bytes) is RESOURCE_EXHAUSTED.
  Result<std::string> render(const nlohmann::ordered_json& variables) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lynx::text
