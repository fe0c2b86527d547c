#include "model/hf_config.h"

#include <functional>
#include <string>
#include <vector>

#include "model/hf_json.h"
#include "tests/catch.h"
#include "tests/model/hf_files.h"

namespace lynx::model {
namespace {

using nlohmann::json;
using testing::kTinyModels;
using testing::read_json;

struct Damage {
  std::function<void(json&)> apply;
  Code code;
  const char* part;
};

TEST_CASE("config.json as transformers 5 writes it") {
  const auto parsed = parse_hf_config(read_json(kTinyModels + "single/config.json"));
  REQUIRE(parsed.status().to_string() == "OK");
  const ModelConfig& config = parsed->config;
  CHECK(config.layers == 2);
  CHECK(config.hidden == 32);
  CHECK(config.heads == 4);
  CHECK(config.kv_heads == 2);
  CHECK(config.head_dim == 8);
  CHECK(config.ffn == 64);
  CHECK(config.vocabulary == 304);
  CHECK(config.context == 512);
  CHECK(config.rope_theta == 500000.0F);
  CHECK(config.rope_style == RopeStyle::kHalf);
  CHECK(config.rope_scaling.type == RopeScaling::Type::kLlama3);
  CHECK(config.rope_scaling.factor == 8.0F);
  CHECK(config.rope_scaling.original_context == 64);
  CHECK_FALSE(config.tied_head);
  CHECK(parsed->bos == 290);
  CHECK(parsed->eos == std::vector<std::int32_t>{291, 292});
}

TEST_CASE("The older spelling, and the defaults of transformers") {
  json root = read_json(kTinyModels + "single/config.json");
  for (const char* key :
       {"rope_parameters", "rms_norm_eps", "max_position_embeddings", "num_key_value_heads", "head_dim", "mlp_bias",
        "tie_word_embeddings", "eos_token_id", "bos_token_id", "attention_bias", "hidden_act", "architectures"}) {
    root.erase(key);
  }
  root["rope_scaling"] = nullptr;
  auto parsed = parse_hf_config(root);
  REQUIRE(parsed.status().to_string() == "OK");
  CHECK(parsed->config.rope_theta == 10000.0F);
  CHECK(parsed->config.rope_scaling.type == RopeScaling::Type::kNone);
  CHECK(parsed->config.norm_epsilon == 1e-6F);
  CHECK(parsed->config.context == 2048);
  CHECK(parsed->config.kv_heads == 4);
  CHECK(parsed->config.head_dim == 8);
  CHECK_FALSE(parsed->config.tied_head);
  CHECK(parsed->eos.empty());
  CHECK(parsed->bos == -1);

  root["rope_theta"] = 20000;
  root["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  root["eos_token_id"] = 7;
  parsed = parse_hf_config(root);
  REQUIRE(parsed.status().to_string() == "OK");
  CHECK(parsed->config.rope_theta == 20000.0F);
  CHECK(parsed->config.rope_scaling.type == RopeScaling::Type::kLinear);
  CHECK(parsed->config.rope_scaling.factor == 2.0F);
  CHECK(parsed->eos == std::vector<std::int32_t>{7});
}

TEST_CASE("What the engine does not compute is refused by name") {
  const std::vector<Damage> table = {
      {[](json& c) { c["model_type"] = "qwen2"; }, Code::kUnimplemented, "'qwen2'"},
      {[](json& c) { c.erase("model_type"); }, Code::kInvalidArgument, "'model_type': missing"},
      {[](json& c) { c["architectures"] = {"LlamaForSequenceClassification"}; }, Code::kUnimplemented, "LlamaForSequence"},
      {[](json& c) { c["hidden_act"] = "gelu"; }, Code::kUnimplemented, "'gelu'"},
      {[](json& c) { c["attention_bias"] = true; }, Code::kUnimplemented, "'attention_bias'"},
      {[](json& c) { c["mlp_bias"] = true; }, Code::kUnimplemented, "'mlp_bias'"},
      {[](json& c) {
         c["quantization_config"] = {{"quant_method", "awq"}};
       },
       Code::kUnimplemented, "'awq'"},
      {[](json& c) { c["rope_parameters"]["rope_type"] = "yarn"; }, Code::kUnimplemented, "'yarn'"},
      {[](json& c) { c["rope_parameters"]["partial_rotary_factor"] = 0.5; }, Code::kUnimplemented, "partial_rotary_factor"},
      {[](json& c) { c["rope_parameters"].erase("factor"); }, Code::kInvalidArgument, "'factor': missing"},
      {[](json& c) { c["rope_parameters"]["high_freq_factor"] = 1.0; }, Code::kInvalidArgument, "high frequency factor"},
      {[](json& c) { c["rope_parameters"] = 3; }, Code::kInvalidArgument, "expected an object"},
      {[](json& c) { c["hidden_size"] = "32"; }, Code::kInvalidArgument, "'hidden_size': expected an integer"},
      {[](json& c) { c["hidden_size"] = 4294967328U; }, Code::kInvalidArgument, "'hidden_size'"},
      {[](json& c) { c["num_hidden_layers"] = -1; }, Code::kInvalidArgument, "layers is -1"},
      {[](json& c) { c["num_attention_heads"] = 0; }, Code::kInvalidArgument, "heads"},
      {[](json& c) { c["num_key_value_heads"] = 3; }, Code::kInvalidArgument, "shared evenly"},
      {[](json& c) { c["head_dim"] = 7; }, Code::kInvalidArgument, "odd"},
      {[](json& c) { c["rms_norm_eps"] = 1e300; }, Code::kInvalidArgument, "epsilon"},
      {[](json& c) {
         c["eos_token_id"] = {1, "2"};
       },
       Code::kInvalidArgument, "'eos_token_id'"},
      {[](json& c) { c["tie_word_embeddings"] = 1; }, Code::kInvalidArgument, "'tie_word_embeddings'"},
      {[](json& c) { c = json::array(); }, Code::kInvalidArgument, "expected an object"},
  };
  for (const Damage& damage : table) {
    json root = read_json(kTinyModels + "single/config.json");
    damage.apply(root);
    const Status status = parse_hf_config(root).status();
    CAPTURE(damage.part, status.to_string());
    CHECK(status.code() == damage.code);
    CHECK(status.message().find(damage.part) != std::string::npos);
  }
}

TEST_CASE("JSON is bounded before it is believed") {
  const auto refused = [](const std::string& text, const std::string& part) {
    const Status status = parse_json(text).status();
    CAPTURE(status.to_string());
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.message().find(part) != std::string::npos);
  };
  CHECK(parse_json(std::string(32, '[') + std::string(32, ']')).ok());
  refused(std::string(34, '[') + std::string(34, ']'), "nested too deeply");
  refused(std::string(1000000, '['), "nested too deeply");
  refused(R"({"a": {"b": 1, "c": 2, "b": 3}})", "key 'b' appears twice");
  refused(R"({"a": 1, "a": {"b": 2}})", "appears twice");
  refused("{\"a\": \"\xff\"}", "not valid JSON");
  refused("{\"a\": 1e999}", "JSON");
  refused("", "not valid JSON");
  refused("{} {}", "not valid JSON at byte 4");
  CHECK(parse_json(R"({"a": {"b": 1}, "c": {"b": 1}})").ok());
}

}  // namespace
}  // namespace lynx::model
