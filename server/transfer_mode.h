#pragma once

// How a prompt's KV cache crosses the network (docs/plane_format.md).

#include <array>
#include <optional>
#include <string_view>

namespace lynx::server {

enum class TransferMode {
  kBf16,              ///< As it is.
  kLossless,          ///< Exponents entropy-coded: about two thirds of the bytes.
  kInt8,              ///< 8-bit codes, in one step.
  kInt4,              ///< 4-bit codes: the Anchors alone.
  kProgressiveInt8,   ///< Anchors, then what makes them int8.
  kProgressiveExact,  ///< Anchors, then what makes them BF16 again.
};
inline constexpr std::array kTransferModes{TransferMode::kBf16, TransferMode::kLossless,        TransferMode::kInt8,
                                           TransferMode::kInt4, TransferMode::kProgressiveInt8, TransferMode::kProgressiveExact};
inline constexpr TransferMode kDefaultTransferMode = TransferMode::kProgressiveExact;

/// What a prompt's cache is once a mode has brought it whole: the text is that of decoding on this view.
enum class FullView { kExact, kInt8, kAnchor };

constexpr std::string_view transfer_mode_name(TransferMode mode) {
  switch (mode) {
    case TransferMode::kBf16: return "bf16";
    case TransferMode::kLossless: return "lossless";
    case TransferMode::kInt8: return "int8";
    case TransferMode::kInt4: return "int4";
    case TransferMode::kProgressiveInt8: return "progressive-int8";
    case TransferMode::kProgressiveExact: return "progressive-exact";
  }
  return "";
}
/// nullopt for a name that is none.
constexpr std::optional<TransferMode> parse_transfer_mode(std::string_view name) {
  for (const TransferMode mode : kTransferModes) {
    if (name == transfer_mode_name(mode)) return mode;
  }
  return std::nullopt;
}

constexpr bool is_progressive(TransferMode mode) {
  return mode == TransferMode::kProgressiveInt8 || mode == TransferMode::kProgressiveExact;
}

constexpr FullView full_view(TransferMode mode) {
  if (mode == TransferMode::kInt4) return FullView::kAnchor;
  return mode == TransferMode::kInt8 || mode == TransferMode::kProgressiveInt8 ? FullView::kInt8 : FullView::kExact;
}
constexpr std::string_view full_view_name(FullView view) {
  return view == FullView::kExact ? "exact" : (view == FullView::kInt8 ? "int8" : "anchor");
}

/// What a decode node does between Anchors and Residuals.
enum class GapMode { kDraft, kWait };
constexpr std::string_view gap_mode_name(GapMode mode) {
  return mode == GapMode::kDraft ? "draft" : "wait";
}
constexpr std::optional<GapMode> parse_gap_mode(std::string_view name) {
  if (name == gap_mode_name(GapMode::kDraft)) return GapMode::kDraft;
  if (name == gap_mode_name(GapMode::kWait)) return GapMode::kWait;
  return std::nullopt;
}

}  // namespace lynx::server
