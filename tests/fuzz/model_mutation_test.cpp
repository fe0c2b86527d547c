#include <cstdint>
#include <random>
#include <string>

#include "tests/catch.h"
#include "tests/fuzz/model_targets.h"
#include "tests/fuzz/mutator.h"
#include "tests/model/gguf_builder.h"
#include "tests/model/hf_files.h"

namespace lynx::fuzz {
namespace {

constexpr std::uint64_t kSeed = 20260701;

struct Subject {
  const char* name;
  Target target;
  Input seed;
  std::size_t header_bytes;  ///< Where the structure ends and weights begin.
};

/// GGUF by hand and by the gguf package; safetensors with a short header of its own.
std::vector<Subject> subjects() {
  const Input gguf = model::testing::tiny_gguf().build();
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[32],"data_offsets":[0,128]},)"
      R"("b":{"dtype":"BF16","shape":[32,64],"data_offsets":[128,4224]},"c":{"dtype":"I64","shape":[],"data_offsets":[4224,4232]}})";
  const std::string file = model::testing::raw(static_cast<std::uint64_t>(header.size())) + header + std::string(4232, '\x2a');
  return {{"gguf", try_gguf, gguf, 1984}, {"safetensors", try_safetensors, input_of(file), 8 + header.size()}};
}

TEST_CASE("The seeds themselves are accepted") {
  for (const Subject& subject : subjects()) {
    CAPTURE(subject.name);
    CHECK(run_checked(subject.target, subject.seed).empty());
  }
  CHECK(try_gguf(input_of(model::testing::read_text(model::testing::kTinyModels + "tiny.gguf"))).empty());
}

TEST_CASE("Model files cut short at any byte") {
  for (const Subject& subject : subjects()) {
    CAPTURE(subject.name);
    CHECK(try_truncations(subject.target, subject.seed, subject.header_bytes, 31) == "");
  }
}

TEST_CASE("Model files with any byte of the structure changed") {
  for (const Subject& subject : subjects()) {
    CAPTURE(subject.name);
    CHECK(try_byte_changes(subject.target, subject.seed, subject.header_bytes) == "");
  }
}

TEST_CASE("Model files with huge numbers at any place") {
  for (const Subject& subject : subjects()) {
    CAPTURE(subject.name);
    CHECK(try_number_changes(subject.target, subject.seed, subject.header_bytes) == "");
  }
}

TEST_CASE("Model files with random damage") {
  CAPTURE(kSeed);
  std::mt19937_64 rng(kSeed);
  for (const Subject& subject : subjects()) {
    CAPTURE(subject.name);
    CHECK(try_random_changes(subject.target, subject.seed, subject.header_bytes, 8000, rng) == "");
  }
}

TEST_CASE("Noise is no model") {
  CAPTURE(kSeed);
  std::mt19937_64 rng(kSeed);
  for (int round = 0; round < 4000; ++round) {
    Input input(rng() % 256);
    for (std::byte& byte : input) byte = static_cast<std::byte>(rng() & 0xff);
    for (const Target& target : {Target(try_gguf), Target(try_safetensors), Target(try_hf_config), Target(try_hf_tokenizer),
                                 Target(try_json), Target(try_plane_profile)}) {
      REQUIRE(run_checked(target, input) == "");
    }
  }
}

}  // namespace
}  // namespace lynx::fuzz
