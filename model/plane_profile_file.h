#pragma once

// Plane profiles on disk: what `lynx calibrate` writes, and which one a model gets. JSON, untrusted:
//   {"format": 1, "model": "name as in the model file", "layers": 30, "wide_k": [17, 18]}

#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "model/model_config.h"
#include "quant/plane_profile.h"

namespace lynx::model {

struct PlaneProfileFile {
  std::string model;  ///< ModelConfig::name of the model it was made for; may be empty.
  int layers = 0;
  quant::PlaneProfile profile;
};

/// INVALID_ARGUMENT naming the key for anything but the form above: also for unknown keys, and layers of wide_k that do not ascend
/// or do not exist. UNIMPLEMENTED for another format number.
Result<PlaneProfileFile> parse_plane_profile(std::string_view text);
/// The same, each error beginning with the path. NOT_FOUND when there is no such file.
Result<PlaneProfileFile> read_plane_profile(const std::string& path);

/// The text that parse_plane_profile takes back. `profile.wide_k` is empty or has `layers` entries; `model` is UTF-8.
std::string plane_profile_text(const PlaneProfileFile& file);

/// Texts of the profiles in configs/profiles/, compiled in.
std::span<const std::string_view> shipped_plane_profiles();

/// Where the profile of the model at this path is looked for: "models/x/" → "models/x.profile.json".
std::string profile_path_beside(std::string model_path);

/// The profile of a model, in this order: of the file `explicit_path` unless that is empty; of "<model_path>.profile.json" if it
/// exists; of a shipped file for a model of this name and this many layers; else the empty one. A file that does not fit the
/// model's layers is INVALID_ARGUMENT naming it, an explicit one that does not exist NOT_FOUND. `source` (may be null) gets where
/// the profile came from, in words.
Result<quant::PlaneProfile> load_plane_profile(const std::string& explicit_path, const std::string& model_path,
                                               const ModelConfig& config, std::string* source = nullptr);

}  // namespace lynx::model
