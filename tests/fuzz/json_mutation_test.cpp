#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/fuzz/model_targets.h"
#include "tests/fuzz/mutator.h"
#include "tests/model/hf_files.h"

namespace lynx::fuzz {
namespace {

using nlohmann::json;

constexpr std::uint64_t kSeed = 20260702;

struct Subject {
  const char* name;
  Target target;
  json seed;
};

/// The tiny model's files; most of the vocabulary is left out, since one token is as good as three hundred.
std::vector<Subject> subjects() {
  const std::string folder = model::testing::kTinyModels + "single/";
  json tokenizer = model::testing::read_json(folder + "tokenizer.json");
  json vocab = json::object();
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) {
    if (id.get<int>() < 8) vocab[token] = id;
  }
  tokenizer["model"]["vocab"] = vocab;
  tokenizer["model"]["merges"] = {{"a", "b"}, "c d"};
  json config = model::testing::read_json(folder + "tokenizer_config.json");
  config["added_tokens_decoder"] = {{"300", {{"content", "<|begin_of_text|>"}, {"special", true}}},
                                    {"301", {{"content", "<|end_of_text|>"}}}};
  config["chat_template"] = {{{"name", "default"}, {"template", "x"}}};
  config["add_bos_token"] = true;
  return {{"config.json", try_hf_config, model::testing::read_json(folder + "config.json")},
          {"tokenizer.json", try_hf_tokenizer, tokenizer},
          {"tokenizer_config.json", try_hf_tokenizer, config},
          {"a plane profile", try_plane_profile, json::parse(R"({"format":1,"model":"Tiny","layers":4,"wide_k":[1,3]})")}};
}

std::vector<json::json_pointer> places_in(const json& root) {
  std::vector<json::json_pointer> places;
  const json flat = root.flatten();
  for (const auto& [path, value] : flat.items()) {
    // All the containers on the way to a leaf, too.
    for (json::json_pointer place(path); !place.empty(); place = place.parent_pointer()) places.push_back(place);
  }
  return places;
}

TEST_CASE("Every value in the JSON files replaced by every odd one") {
  const std::vector<json> odd = {nullptr,
                                 true,
                                 -1,
                                 0,
                                 1,
                                 303,
                                 304,
                                 2147483648U,
                                 18446744073709551615U,
                                 -9007199254740993,
                                 0.5,
                                 1e300,
                                 "",
                                 "x",
                                 "\xf0\x9f\xa6\x8a",
                                 json::array(),
                                 json::object(),
                                 json{1, 2},
                                 json{{"content", "x"}},
                                 json{{"type", "x"}}};
  for (const Subject& subject : subjects()) {
    for (const json::json_pointer& place : places_in(subject.seed)) {
      for (const json& value : odd) {
        json changed = subject.seed;
        changed[place] = value;
        const std::string wrong = run_checked(subject.target, input_of(changed.dump()));
        if (!wrong.empty()) FAIL(subject.name << " with " << place << " = " << value << ": " << wrong);
      }
    }
  }
  SUCCEED("all refused or sound");
}

TEST_CASE("Every member of the JSON files left out") {
  for (const Subject& subject : subjects()) {
    for (const json::json_pointer& place : places_in(subject.seed)) {
      json changed = subject.seed;
      json& parent = changed[place.parent_pointer()];
      if (!parent.is_object()) continue;
      parent.erase(place.back());
      CAPTURE(subject.name, place.to_string());
      CHECK(run_checked(subject.target, input_of(changed.dump())) == "");
    }
  }
}

TEST_CASE("JSON files cut short, changed byte by byte and at random") {
  CAPTURE(kSeed);
  std::mt19937_64 rng(kSeed);
  for (const Subject& subject : subjects()) {
    CAPTURE(subject.name);
    const Input seed = input_of(subject.seed.dump());
    CHECK(run_checked(subject.target, seed) == "");
    CHECK(try_truncations(subject.target, seed, seed.size(), 1) == "");
    CHECK(try_byte_changes(subject.target, seed, seed.size()) == "");
    CHECK(try_random_changes(subject.target, seed, seed.size(), 4000, rng) == "");
  }
}

TEST_CASE("JSON made to grow in memory stays in proportion") {
  const auto repeated = [](const std::string& piece, int times, const std::string& close) {
    std::string text = "[";
    for (int i = 0; i < times; ++i) text += (i == 0 ? "" : ",") + piece;
    return text + close + "]";
  };
  for (const std::string& text :
       {repeated("[]", 20000, ""), repeated("{}", 400000, ""), repeated("0", 40000, ""), repeated("\"\"", 20000, ""),
        repeated("{\"\":[]}", 10000, ""), std::string(100000, '['), std::string(100000, '{')}) {
    CAPTURE(text.substr(0, 16));
    CHECK(run_checked(try_json, input_of(text)) == "");
  }
}

}  // namespace
}  // namespace lynx::fuzz
