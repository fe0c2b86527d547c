#pragma once

#include <cstddef>
#include <cstdint>

#include "text/jinja_error.h"

namespace lynx::text::jinja {

/// How much one render may use. Far above what real templates need for a million tokens of text; low enough that a hostile template
/// ends within about a second.
struct Limits {
  std::int64_t max_steps = 20'000'000;                 ///< Nodes evaluated, items visited, and text read in units of 64 bytes.
  std::int64_t max_value_bytes = 128LL * 1024 * 1024;  ///< Bytes of all values made, dead or alive.
  std::int64_t max_output_bytes = 64LL * 1024 * 1024;
  int max_depth = 400;    ///< Nested evaluations, macro calls included.
  int max_nesting = 100;  ///< Lists in lists and so on, in values and in the input.
};

/// Counts what one render uses and stops it with RESOURCE_EXHAUSTED.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void charge_steps(std::int64_t count) {
    steps_ += count;
    if (steps_ > limits_.max_steps) {
      exhausted("steps");
    }
  }

  /// For work over text or items whose size is known before it starts: the time to read them.
  void charge_reading(std::size_t bytes) { charge_steps(1 + static_cast<std::int64_t>(bytes / 64)); }

  /// Before a value of about `bytes` is made.
  void charge_bytes(std::size_t bytes) {
    charge_reading(bytes);
    if (bytes > static_cast<std::size_t>(limits_.max_value_bytes - bytes_)) {
      exhausted("memory");
    }
    bytes_ += static_cast<std::int64_t>(bytes);
  }

  /// Before `count` values are put into a list.
  void charge_items(std::size_t count) {
    if (count > static_cast<std::size_t>(limits_.max_value_bytes)) {
      exhausted("memory");
    }
    charge_bytes(count * kItemBytes);
  }

  void charge_output(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(limits_.max_output_bytes - output_)) {
      exhausted("output bytes");
    }
    output_ += static_cast<std::int64_t>(bytes);
  }

  int max_nesting() const { return limits_.max_nesting; }

  /// Counts one level of recursion while it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (budget_.depth_ >= budget_.limits_.max_depth) {
        budget_.exhausted("depth");
      }
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  static constexpr std::size_t kItemBytes = 48;

  [[noreturn]] static void exhausted(const char* what) {
    throw Error(resource_exhausted(std::string("the template ran over its limit of ") + what));
  }

  Limits limits_;
  std::int64_t steps_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t output_ = 0;
  int depth_ = 0;
};

}  // namespace lynx::text::jinja
