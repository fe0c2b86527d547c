#include "model/model_file.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/model/gguf_builder.h"
#include "tests/model/hf_files.h"

namespace lynx::model {
namespace {

using testing::kTinyModels;
using testing::TemporaryDirectory;

std::unique_ptr<ModelFile> open_model(const std::string& path) {
  auto file = ModelFile::open(path);
  CAPTURE(path);
  REQUIRE(file.status().to_string() == "OK");
  return std::move(file).value();
}

Status open_status(const TemporaryDirectory& directory) {
  return ModelFile::open(directory.path().string()).status();
}

std::vector<float> values_of(const matmul::WeightSource& source) {
  std::vector<float> values(static_cast<std::size_t>(source.rows) * static_cast<std::size_t>(source.cols));
  quant::dequantize(source.type, source.data, values.size(), values.data());
  return values;
}

/// From GGUF's order of rows (pairs side by side) to that of HF (halves of a head).
std::vector<float> unpermute(const matmul::WeightSource& source, int head_dim) {
  const std::vector<float> values = values_of(source);
  std::vector<float> out(values.size());
  const auto cols = static_cast<std::size_t>(source.cols);
  for (int row = 0; row < source.rows; ++row) {
    const int in_head = row % head_dim;
    const int target = row - in_head + (in_head % 2) * (head_dim / 2) + in_head / 2;
    std::memcpy(&out[static_cast<std::size_t>(target) * cols], &values[static_cast<std::size_t>(row) * cols], cols * sizeof(float));
  }
  return out;
}

void check_same_weights(const ModelFile& gguf, const ModelFile& hf) {
  CHECK(values_of(gguf.embedding()) == values_of(hf.embedding()));
  CHECK(values_of(gguf.final_norm()) == values_of(hf.final_norm()));
  CHECK(values_of(gguf.head()) == values_of(hf.head()));
  const int head_dim = gguf.config().head_dim;
  for (int index = 0; index < gguf.config().layers; ++index) {
    const LayerTensors a = gguf.layer(index);
    const LayerTensors b = hf.layer(index);
    CHECK(unpermute(a.q, head_dim) == values_of(b.q));
    CHECK(unpermute(a.k, head_dim) == values_of(b.k));
    CHECK(values_of(a.v) == values_of(b.v));
    CHECK(values_of(a.o) == values_of(b.o));
    CHECK(values_of(a.gate) == values_of(b.gate));
    CHECK(values_of(a.up) == values_of(b.up));
    CHECK(values_of(a.down) == values_of(b.down));
    CHECK(values_of(a.attention_norm) == values_of(b.attention_norm));
    CHECK(values_of(a.ffn_norm) == values_of(b.ffn_norm));
  }
}

TEST_CASE("One model in three forms: GGUF, a directory, a directory with shards") {
  const auto gguf = open_model(kTinyModels + "tiny.gguf");
  for (const char* name : {"single", "sharded"}) {
    CAPTURE(name);
    const auto hf = open_model(kTinyModels + name);
    check_same_weights(*gguf, *hf);
    const ModelConfig& a = gguf->config();
    const ModelConfig& b = hf->config();
    CHECK(b.name == name);
    CHECK(a.layers == b.layers);
    CHECK(a.kv_heads == b.kv_heads);
    CHECK(a.ffn == b.ffn);
    CHECK(a.context == b.context);
    CHECK(a.norm_epsilon == b.norm_epsilon);
    CHECK(a.rope_theta == b.rope_theta);
    CHECK(a.rope_style == RopeStyle::kInterleaved);
    CHECK(b.rope_style == RopeStyle::kHalf);
    CHECK(a.rope_scaling.factors.size() == 4);
    CHECK(b.rope_scaling.type == RopeScaling::Type::kLlama3);
    CHECK(a.tied_head == b.tied_head);
    CHECK(a.end_tokens == b.end_tokens);
    CHECK(gguf->chat_template() == hf->chat_template());
    const text::TokenizerSpec& s = gguf->tokenizer();
    const text::TokenizerSpec& t = hf->tokenizer();
    CHECK(s.pre_tokenizer == t.pre_tokenizer);
    CHECK(s.merges == t.merges);
    CHECK(s.ignore_merges == t.ignore_merges);
    CHECK(s.add_bos == t.add_bos);
    CHECK(s.bos == t.bos);
    CHECK(s.eos == t.eos);
    REQUIRE(s.tokens.size() == t.tokens.size());
    for (std::size_t id = 0; id < s.tokens.size(); ++id) {
      CHECK(s.tokens[id].kind == t.tokens[id].kind);
      if (s.tokens[id].kind != text::TokenizerSpec::TokenKind::kUnused) CHECK(s.tokens[id].text == t.tokens[id].text);
    }
  }
}

TEST_CASE("Weights are still there after their pages were dropped") {
  const auto file = open_model(kTinyModels + "tiny.gguf");
  const auto before = values_of(file->head());
  file->drop_pages();
  CHECK(values_of(file->head()) == before);
}

TEST_CASE("The default model") {
  const char* named = std::getenv("LYNX_TEST_MODEL");
  const auto file = open_model(named != nullptr ? named : ".models/SmolLM2-135M-Instruct.Q4_1.gguf");
  CHECK(file->config().layers == 30);
  CHECK(file->config().hidden == 576);
  CHECK(file->config().kv_heads == 3);
  CHECK(file->config().vocabulary == 49152);
  CHECK(file->config().rope_theta == 100000.0F);
  CHECK(file->config().tied_head);
  CHECK(file->config().end_tokens == std::vector<std::int32_t>{0, 2});
  CHECK(file->layer(29).down.type == quant::WeightType::kQ4_1);
  CHECK(file->embedding().type == quant::WeightType::kQ8_0);
  CHECK(file->tokenizer().pre_tokenizer == text::PreTokenizer::kSmolLm);
  CHECK(file->tokenizer().tokens[2].text == "<|im_end|>");
  CHECK(file->tokenizer().merges.size() == 48900);
  CHECK(file->chat_template().value_or("").find("<|im_start|>") != std::string::npos);
}

TEST_CASE("A GGUF file without a name is called after its file") {
  testing::GgufBuilder builder = testing::tiny_gguf();
  builder.erase("general.name");
  const auto bytes = builder.build();
  TemporaryDirectory directory;
  directory.write("my-model.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  CHECK(open_model((directory.path() / "my-model.gguf").string())->config().name == "my-model");
}

TEST_CASE("Paths that are no model") {
  TemporaryDirectory directory;
  const std::string base = directory.path().string();
  CHECK(ModelFile::open(base + "/none.gguf").status().code() == Code::kNotFound);
  CHECK(open_status(directory).code() == Code::kNotFound);
  CHECK(open_status(directory).message().find(base + "/config.json: no such file") == 0);
  CHECK(ModelFile::open("/dev/zero").status().message() == "/dev/zero: not a regular file");
  directory.write("empty.gguf", "");
  CHECK(ModelFile::open(base + "/empty.gguf").status().message().find("empty") != std::string::npos);
  directory.write("text.gguf", "hello, this is no model");
  CHECK(ModelFile::open(base + "/text.gguf").status().message() ==
        base + "/text.gguf: not a GGUF file: it does not start with 'GGUF'");
}

TEST_CASE("Directories that lack something, or reach outside") {
  const auto expect = [](const TemporaryDirectory& directory, Code code, const std::string& part) {
    const Status status = open_status(directory);
    CAPTURE(status.to_string());
    CHECK(status.code() == code);
    CHECK(status.message().find(part) != std::string::npos);
    CHECK(status.message().find(directory.path().string()) == 0);
  };
  for (const char* name : {"config.json", "tokenizer.json", "model-00002-of-00003.safetensors", "model.safetensors.index.json"}) {
    TemporaryDirectory directory(kTinyModels + "sharded");
    directory.remove(name);
    expect(directory, Code::kNotFound, name);
  }
  {
    TemporaryDirectory directory(kTinyModels + "sharded");
    nlohmann::json index = testing::read_json(directory.path() / "model.safetensors.index.json");
    index["weight_map"]["lm_head.weight"] = "../../../etc/passwd";
    directory.write("model.safetensors.index.json", index.dump());
    expect(directory, Code::kInvalidArgument, "plain name");
    index["weight_map"]["lm_head.weight"] = "model-00001-of-00003.safetensors";
    index["weight_map"]["ghost"] = "model-00001-of-00003.safetensors";
    directory.write("model.safetensors.index.json", index.dump());
    expect(directory, Code::kInvalidArgument, "'ghost': not in file");
  }
  {
    TemporaryDirectory directory(kTinyModels + "single");
    directory.remove("tokenizer.json");
    directory.write("tokenizer.model", "x");
    expect(directory, Code::kUnimplemented, "SentencePiece");
  }
  {
    TemporaryDirectory directory(kTinyModels + "single");
    directory.write("config.json", "{");
    expect(directory, Code::kInvalidArgument, "config.json: not valid JSON");
    directory.write("config.json", std::string((4U << 20) + 1, ' '));
    expect(directory, Code::kInvalidArgument, "config.json: more than 4.0 MiB");
  }
  {
    TemporaryDirectory directory(kTinyModels + "single");
    nlohmann::json config = testing::read_json(directory.path() / "config.json");
    config["intermediate_size"] = 128;
    directory.write("config.json", config.dump());
    expect(directory, Code::kInvalidArgument, "'model.layers.0.mlp.gate_proj.weight': shape [64, 32], expected [128, 32]");
    config["intermediate_size"] = 64;
    config["num_hidden_layers"] = 1;
    directory.write("config.json", config.dump());
    expect(directory, Code::kUnimplemented, "'model.layers.1.");
  }
}

TEST_CASE("What is optional in a directory") {
  TemporaryDirectory directory(kTinyModels + "single");
  directory.remove("generation_config.json");
  directory.remove("chat_template.jinja");
  nlohmann::json config = testing::read_json(directory.path() / "tokenizer_config.json");
  config["chat_template"] = "from the config";
  directory.write("tokenizer_config.json", config.dump());
  CHECK(open_model(directory.path().string())->chat_template() == "from the config");
  directory.write("chat_template.jinja", "from the file");
  CHECK(open_model(directory.path().string() + "/")->chat_template() == "from the file");
  CHECK(open_model(directory.path().string() + "/")->config().name == directory.path().filename().string());
  directory.remove("chat_template.jinja");
  directory.remove("tokenizer_config.json");
  const auto bare = open_model(directory.path().string());
  CHECK_FALSE(bare->chat_template().has_value());
  CHECK(bare->tokenizer().bos == 290);
  CHECK(bare->tokenizer().eos == 291);
  CHECK(bare->config().end_tokens == std::vector<std::int32_t>{291, 292});
}

}  // namespace
}  // namespace lynx::model
