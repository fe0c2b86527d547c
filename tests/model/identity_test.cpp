#include <filesystem>
#include <fstream>

#include "model/model_file.h"
#include "model/model_identity.h"
#include "model/numerics_fingerprint.h"
#include "tests/model/forward_fixture.h"

namespace lynx::model {
namespace {

std::unique_ptr<ModelFile> open(const std::string& path) {
  auto file = ModelFile::open(path);
  INFO(file.status().to_string());
  REQUIRE(file.ok());
  return std::move(file).value();
}

TEST_CASE("the same file has the same identity, and a flipped bit of a tensor changes that of the weights alone") {
  const ModelIdentity original = identify(*open(real_model_path()));
  CHECK(original.weights.size() == 32);
  CHECK(original.tokenizer.size() == 32);
  CHECK(original.weights != original.tokenizer);

  const std::filesystem::path copy = std::filesystem::temp_directory_path() / "lynx_identity_test.gguf";
  std::filesystem::copy_file(real_model_path(), copy, std::filesystem::copy_options::overwrite_existing);
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(copy));
  CHECK(identify(*open(copy.string())).weights == original.weights);
  {
    std::fstream file(copy, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(size - 1000);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(size - 1000);
    file.put(byte);
  }
  const ModelIdentity changed = identify(*open(copy.string()));
  std::filesystem::remove(copy);
  CHECK(changed.weights != original.weights);
  CHECK(changed.tokenizer == original.tokenizer);
}

TEST_CASE("the fingerprint is the arithmetic's: equal for any number of threads, different for another path") {
  const auto file = open(real_model_path());
  std::vector<std::string> prints;
  for (const Isa isa : supported_paths()) {
    std::string print;
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      auto model = Model::load(*file, isa, &pool);
      REQUIRE(model.ok());
      const auto result = numerics_fingerprint(**model);
      REQUIRE(result.ok());
      if (print.empty()) print = *result;
      CHECK(*result == print);
      CHECK(*numerics_fingerprint(**model) == print);
    }
    for (const std::string& other : prints) CHECK(other != print);
    prints.push_back(print);
  }
}

}  // namespace
}  // namespace lynx::model
