#include "model/plane_profile_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/units.h"
#include "kv/kv_cache.h"
#include "model/hf_json.h"
#include "model/mapped_file.h"
#include "model/untrusted_text.h"

namespace lynx::model {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr std::size_t kMostBytes = 64 << 10;
constexpr std::size_t kMostNameBytes = 256;
constexpr std::array<std::string_view, 4> kKeys = {"format", "model", "layers", "wide_k"};

Status check_keys(const json& root) {
  if (!root.is_object()) return invalid_argument("a plane profile is a JSON object");
  for (const auto& [key, value] : root.items()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      return invalid_argument(fmt::format("{}: a plane profile has no such key", quote(key)));
    }
  }
  return {};
}

Status read_wide_k(const json& root, int layers, std::vector<bool>* wide_k) {
  const json* list = find_member(root, "wide_k");
  if (list == nullptr) return invalid_argument("'wide_k': missing");
  if (!list->is_array()) return invalid_argument("'wide_k': expected a list of layers");
  int previous = -1;
  for (const json& entry : *list) {
    const auto layer = as_int(entry);
    if (!layer || *layer < 0 || *layer >= layers) {
      return invalid_argument(fmt::format("'wide_k': expected layers from 0 to {}", layers - 1));
    }
    if (*layer <= previous) return invalid_argument(fmt::format("'wide_k': layer {} is not above the one before it", *layer));
    previous = *layer;
    wide_k->resize(static_cast<std::size_t>(layers));
    (*wide_k)[static_cast<std::size_t>(*layer)] = true;
  }
  return {};
}

Result<quant::PlaneProfile> profile_for(const std::string& path, const ModelConfig& config, PlaneProfileFile file) {
  if (file.layers == config.layers) return std::move(file.profile);
  return invalid_argument(
      fmt::format("{}: made for {} layers ({}), the model has {}", path, file.layers, quote(file.model), config.layers));
}

}  // namespace

Result<PlaneProfileFile> parse_plane_profile(std::string_view text) {
  if (text.size() > kMostBytes) {
    return invalid_argument(fmt::format("more than {}", format_bytes(static_cast<std::int64_t>(kMostBytes))));
  }
  LYNX_TRY(const json root, parse_json(text));
  LYNX_RETURN_IF_ERROR(check_keys(root));
  int format = 0;
  LYNX_RETURN_IF_ERROR(require_member(root, "format", &format));
  if (format != kFormat) return unimplemented(fmt::format("'format': {} is not supported (only {} is)", format, kFormat));
  PlaneProfileFile file;
  LYNX_RETURN_IF_ERROR(require_member(root, "model", &file.model));
  if (file.model.size() > kMostNameBytes) return invalid_argument(fmt::format("'model': longer than {} bytes", kMostNameBytes));
  LYNX_RETURN_IF_ERROR(require_member(root, "layers", &file.layers));
  if (file.layers < 1 || file.layers > kv::kMaxLayers) {
    return invalid_argument(fmt::format("'layers': expected 1 to {}, not {}", kv::kMaxLayers, file.layers));
  }
  LYNX_RETURN_IF_ERROR(read_wide_k(root, file.layers, &file.profile.wide_k));
  return file;
}

Result<PlaneProfileFile> read_plane_profile(const std::string& path) {
  LYNX_TRY(const auto mapped, MappedFile::open(path));
  auto parsed = parse_plane_profile(mapped.text());
  if (!parsed.ok()) return parsed.status().with_context(path);
  return parsed;
}

std::string plane_profile_text(const PlaneProfileFile& file) {
  std::vector<int> wide;
  for (int layer = 0; layer < file.layers; ++layer) {
    if (file.profile.is_wide_k(layer)) wide.push_back(layer);
  }
  return fmt::format("{{\"format\": {}, \"model\": {}, \"layers\": {}, \"wide_k\": [{}]}}\n", kFormat, json(file.model).dump(),
                     file.layers, fmt::join(wide, ", "));
}

std::string profile_path_beside(std::string model_path) {
  while (model_path.size() > 1 && model_path.back() == '/') model_path.pop_back();
  return model_path + ".profile.json";
}

Result<quant::PlaneProfile> load_plane_profile(const std::string& explicit_path, const std::string& model_path,
                                               const ModelConfig& config, std::string* source) {
  const auto from = [&](std::string words) {
    if (source != nullptr) *source = std::move(words);
  };
  if (!explicit_path.empty()) {
    LYNX_TRY(auto file, read_plane_profile(explicit_path));
    from(explicit_path);
    return profile_for(explicit_path, config, std::move(file));
  }
  const std::string beside = profile_path_beside(model_path);
  auto file = read_plane_profile(beside);
  if (file.ok()) {
    from(beside);
    return profile_for(beside, config, std::move(file).value());
  }
  if (file.status().code() != Code::kNotFound) return file.status();
  for (const std::string_view text : shipped_plane_profiles()) {
    LYNX_TRY(auto shipped, parse_plane_profile(text));
    if (shipped.model != config.name || shipped.layers != config.layers) continue;
    from("shipped");
    return std::move(shipped.profile);
  }
  from("none for this model: no layer is special");
  return quant::PlaneProfile{};
}

}  // namespace lynx::model
