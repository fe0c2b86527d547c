#pragma once

// `lynx planes` and `lynx calibrate`: a model's planes measured on texts, and the profile that follows.

#include <string>
#include <vector>

#include "common/status.h"

namespace lynx::server {

inline constexpr int kLeastContinuation = 9;
inline constexpr int kMostContinuation = 512;

struct PlaneToolOptions {
  std::string model;
  std::vector<std::string> texts;  ///< Files; each is one prompt, as it is (chat templates are applied before).
  std::string isa = "auto";
  int threads = 0;         ///< 0: one a core.
  int continuation = 128;  ///< Tokens that are generated behind each prompt, at most: kLeastContinuation … kMostContinuation.
};

/// Markdown tables: bits a value by plane, what the views do to predictions, accepted runs of real drafts. `profile` as in
/// model::load_plane_profile. Errors name the model, the profile or the text.
Result<std::string> measure_planes(const PlaneToolOptions& options, const std::string& profile);

struct CalibrationOptions {
  double most_bits = 4.70;  ///< Of the Anchors of all texts, everything counted.
  std::string output;       ///< Empty: beside the model, where load_plane_profile finds it.
};

/// Finds the layers whose K gains most from wide Anchors and writes the profile; says what was tried.
Result<std::string> calibrate_planes(const PlaneToolOptions& options, const CalibrationOptions& calibration);

}  // namespace lynx::server
