#pragma once

// The functions that a template finds without defining them: range, namespace, dict, raise_exception, strftime_now.

#include <ctime>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_arguments.h"
#include "text/jinja_value.h"

namespace lynx::text::jinja {

/// What one render owns.
struct Runtime {
  Budget budget;
  std::tm now;                       ///< Local time, for strftime_now.
  std::deque<Namespace> namespaces;  ///< Values point to these; they live until the render ends.
};

std::vector<std::pair<std::string, Value>> global_functions();

/// Calls one of global_functions().
Value call_global(FunctionKind kind, const Arguments& arguments, Runtime& runtime);

}  // namespace lynx::text::jinja
