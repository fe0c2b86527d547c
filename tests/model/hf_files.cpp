#include "tests/model/hf_files.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/catch.h"

namespace lynx::model::testing {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path.string());
  REQUIRE(file.is_open());
  return {std::istreambuf_iterator<char>(file), {}};
}

nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_text(path));
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "lynx_test_XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryDirectory::TemporaryDirectory(const std::filesystem::path& source) : TemporaryDirectory() {
  std::filesystem::copy(source, path_, std::filesystem::copy_options::recursive);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryDirectory::write(const std::string& name, std::string_view content) const {
  std::ofstream file(path_ / name, std::ios::binary);
  file << content;
  REQUIRE(file.good());
}

}  // namespace lynx::model::testing
