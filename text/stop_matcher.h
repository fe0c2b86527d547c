#pragma once

// Stop strings over text that arrives in pieces.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"

namespace lynx::text {

/// The stop strings of one request, compiled. Immutable: the choices of a request share it.
class StopStrings {
 public:
  /// INVALID_ARGUMENT for an empty stop string. Time and memory grow with the total length; the caller bounds that.
  static Result<std::shared_ptr<const StopStrings>> create(std::span<const std::string> stops);

 private:
  friend class StopMatcher;

  /// A node of the Aho–Corasick automaton: stands for the longest suffix of the text that some stop string begins with.
  struct Node {
    std::vector<std::pair<char, std::int32_t>> next;  ///< Sorted by byte.
    std::int32_t fail = 0;                            ///< The node of its longest proper suffix.
    std::int32_t depth = 0;                           ///< Its length in bytes.
    std::int32_t stop = -1;                           ///< The longest stop string it ends with; −1 = none.
  };

  std::int32_t child(std::int32_t node, char byte) const;  ///< −1 = none
  std::int32_t step(std::int32_t node, char byte) const;
  std::int32_t insert(std::string_view stop);
  void link();

  std::vector<Node> nodes_{1};
  std::vector<std::size_t> lengths_;
};

/// Releases text that can no longer become part of a stop string. The stop string that is complete first wins, and where two are
/// complete at the same byte the one that begins first: so the result does not depend on how the text was split (list order and
/// token borders, which decide in other servers, have no say). Text is cut before the stop string, or behind it with
/// `include_stop_text`. What goes in as whole code points comes out as whole code points.
class StopMatcher {
 public:
  struct Output {
    std::string text;         ///< To be released now.
    std::optional<int> stop;  ///< Which stop string ended the text: its index. Nothing comes after that.
  };

  /// `stops` may be null: nothing stops, nothing is held back.
  explicit StopMatcher(std::shared_ptr<const StopStrings> stops, bool include_stop_text = false);

  /// Takes the next piece. After a stop, further text is dropped.
  Output feed(std::string_view text);

  /// At the end without a stop: what was held back.
  std::string flush();

  bool stopped() const { return stop_.has_value(); }
  /// Bytes held back: they are the longest suffix of the text that a stop string begins with.
  std::size_t held_bytes() const { return held_.size(); }
  /// Code points released so far.
  std::size_t released_code_points() const { return released_code_points_; }

 private:
  std::string release(std::string text);

  std::shared_ptr<const StopStrings> stops_;
  bool include_stop_text_ = false;
  std::int32_t node_ = 0;
  std::string held_;
  std::size_t released_code_points_ = 0;
  std::optional<int> stop_;
};

}  // namespace lynx::text
