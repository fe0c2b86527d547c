#include "text/chat_template.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace lynx::text {

namespace {

/// Real templates have up to some 20 KB.
constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Block block;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return resource_exhausted(fmt::format("chat template: longer than {} bytes", kMaxTemplateBytes));
  }
  try {
    return ChatTemplate(std::make_unique<Impl>(Impl{jinja::parse(source)}));
  } catch (const jinja::Error& error) {
    return error.status().with_context("chat template");
  }
}

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& variables, const RenderOptions& options) const {
  jinja::Interpreter interpreter(jinja::Limits{}, options.now.value_or(local_time()));
  try {
    return interpreter.run(impl_->block, variables);
  } catch (const jinja::Error& error) {
    return error.verbatim() ? error.status()
                            : error.status().with_context(fmt::format("chat template: line {}", interpreter.line()));
  }
}

}  // namespace lynx::text
