#include "text/utf8_assembler.h"

#include <algorithm>

#include "text/utf8.h"

namespace lynx::text {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

}  // namespace

std::string Utf8Assembler::push(std::string_view bytes) {
  std::string joined(held_.data(), held_size_);
  joined.append(bytes);
  held_size_ = 0;

  std::string out;
  out.reserve(joined.size());
  std::string_view rest = joined;
  while (!rest.empty()) {
    const Utf8Step step = decode_utf8(rest);
    if (step.kind == Utf8Step::Kind::kIncomplete) {
      std::copy(rest.begin(), rest.end(), held_.begin());
      held_size_ = rest.size();
      break;
    }
    out.append(step.kind == Utf8Step::Kind::kValid ? rest.substr(0, step.length) : kReplacement);
    ++code_points_;
    rest.remove_prefix(step.length);
  }
  return out;
}

std::string Utf8Assembler::finish() {
  if (held_size_ == 0) return {};
  held_size_ = 0;
  ++code_points_;
  return std::string(kReplacement);
}

}  // namespace lynx::text
