#include "model/plane_profile_file.h"

#include <filesystem>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/model/hf_files.h"

namespace lynx::model {
namespace {

using testing::TemporaryDirectory;

constexpr std::string_view kGood = R"({"format": 1, "model": "Tiny", "layers": 4, "wide_k": [1, 3]})";

ModelConfig config_of(const std::string& name, int layers) {
  ModelConfig config;
  config.name = name;
  config.layers = layers;
  return config;
}

TEST_CASE("a profile is read and written back") {
  const auto file = parse_plane_profile(kGood);
  REQUIRE(file.status().to_string() == "OK");
  CHECK(file->model == "Tiny");
  CHECK(file->layers == 4);
  CHECK(file->profile.wide_k == std::vector<bool>{false, true, false, true});
  CHECK_FALSE(file->profile.is_wide_k(4));
  CHECK(plane_profile_text(*file) == std::string(kGood) + "\n");

  const auto none = parse_plane_profile(plane_profile_text({"quote \" and é", 7, {}}));
  REQUIRE(none.status().to_string() == "OK");
  CHECK(none->model == "quote \" and é");
  CHECK(none->layers == 7);
  CHECK(none->profile == quant::PlaneProfile{});
}

TEST_CASE("what a profile may not hold is refused by name") {
  struct Case {
    std::string text;
    std::string mention;
  };
  const std::vector<Case> cases = {
      {"", "not valid JSON"},
      {"[]", "JSON object"},
      {R"({"format": 1, "format": 1, "model": "a", "layers": 4, "wide_k": []})", "twice"},
      {R"({"model": "a", "layers": 4, "wide_k": []})", "'format': missing"},
      {R"({"format": 2, "model": "a", "layers": 4, "wide_k": []})", "'format': 2"},
      {R"({"format": "1", "model": "a", "layers": 4, "wide_k": []})", "'format'"},
      {R"({"format": 1, "layers": 4, "wide_k": []})", "'model': missing"},
      {R"({"format": 1, "model": 3, "layers": 4, "wide_k": []})", "'model'"},
      {R"({"format": 1, "model": ")" + std::string(257, 'x') + R"(", "layers": 4, "wide_k": []})", "'model': longer"},
      {R"({"format": 1, "model": "a", "wide_k": []})", "'layers': missing"},
      {R"({"format": 1, "model": "a", "layers": 0, "wide_k": []})", "'layers'"},
      {R"({"format": 1, "model": "a", "layers": 4097, "wide_k": []})", "'layers'"},
      {R"({"format": 1, "model": "a", "layers": 4.5, "wide_k": []})", "'layers'"},
      {R"({"format": 1, "model": "a", "layers": 4})", "'wide_k': missing"},
      {R"({"format": 1, "model": "a", "layers": 4, "wide_k": 1})", "'wide_k'"},
      {R"({"format": 1, "model": "a", "layers": 4, "wide_k": [4]})", "from 0 to 3"},
      {R"({"format": 1, "model": "a", "layers": 4, "wide_k": [-1]})", "from 0 to 3"},
      {R"({"format": 1, "model": "a", "layers": 4, "wide_k": [1, true]})", "from 0 to 3"},
      {R"({"format": 1, "model": "a", "layers": 4, "wide_k": [2, 2]})", "layer 2"},
      {R"({"format": 1, "model": "a", "layers": 4, "wide_k": [2, 1]})", "layer 1"},
      {R"({"format": 1, "model": "a", "layers": 4, "wide_k": [], "wide_v": []})", "'wide_v'"},
      {std::string(1 << 17, ' '), "more than"},
  };
  for (const Case& each : cases) {
    const Status status = parse_plane_profile(each.text).status();
    INFO(each.text.substr(0, 100) << " → " << status.to_string());
    CHECK((status.code() == Code::kInvalidArgument || status.code() == Code::kUnimplemented));
    CHECK(status.message().find(each.mention) != std::string::npos);
  }
}

TEST_CASE("a model gets the named profile, else the one beside it, else none") {
  const TemporaryDirectory directory;
  const std::string model = (directory.path() / "tiny.gguf").string();
  const ModelConfig config = config_of("Tiny", 4);
  std::string source;
  const auto load = [&](const std::string& name, const std::string& model_path) {
    return load_plane_profile(name.empty() ? "" : (directory.path() / name).string(), model_path, config, &source);
  };

  CHECK(*load("", model) == quant::PlaneProfile{});
  CHECK(source.find("none") == 0);

  directory.write("tiny.gguf.profile.json", kGood);
  for (const std::string& path : {model, model + "/"}) {
    const auto beside = load("", path);
    REQUIRE(beside.status().to_string() == "OK");
    CHECK(beside->is_wide_k(3));
    CHECK(source == model + ".profile.json");
  }

  directory.write("named.json", R"({"format": 1, "model": "a fine-tune", "layers": 4, "wide_k": [0]})");
  const auto named = load("named.json", model);
  REQUIRE(named.status().to_string() == "OK");
  CHECK(named->wide_k == std::vector<bool>{true, false, false, false});

  CHECK(load("absent.json", model).status().code() == Code::kNotFound);
  CHECK(load("absent.json", model).status().message().find("absent.json") != std::string::npos);
  directory.write("other.json", R"({"format": 1, "model": "Other", "layers": 5, "wide_k": [0]})");
  const Status other = load("other.json", model).status();
  CHECK(other.code() == Code::kInvalidArgument);
  CHECK(other.message().find("other.json: made for 5 layers ('Other'), the model has 4") != std::string::npos);
  // A broken file beside the model is not passed over: the wrong profile would only show as bad drafts.
  directory.write("tiny.gguf.profile.json", "{");
  CHECK(load("", model).status().message().find(".profile.json: not valid JSON") != std::string::npos);
}

TEST_CASE("shipped profiles are those of configs/profiles, and need name and layers of their model") {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs/profiles")) {
    const auto file = read_plane_profile(entry.path().string());
    REQUIRE(file.status().to_string() == "OK");
    ++files;
    std::string source;
    const auto loaded = load_plane_profile("", "/no/such/model", config_of(file->model, file->layers), &source);
    REQUIRE(loaded.status().to_string() == "OK");
    CHECK(source == "shipped");
    CHECK(*loaded == file->profile);
    CHECK(*load_plane_profile("", "/no/such/model", config_of(file->model, file->layers + 1)) == quant::PlaneProfile{});
    CHECK(*load_plane_profile("", "/no/such/model", config_of(file->model + "x", file->layers)) == quant::PlaneProfile{});
  }
  CHECK(files > 0);
  CHECK(files == shipped_plane_profiles().size());
}

}  // namespace
}  // namespace lynx::model
