#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace lynx::model::testing {

/// Where the committed tiny models lie; tests run in the repository's root.
inline const std::string kTinyModels = "tests/goldens/tiny_models/";

/// A file's content; fails the test when it cannot be read.
std::string read_text(const std::filesystem::path& path);
nlohmann::json read_json(const std::filesystem::path& path);

/// A directory that is removed at the end, empty or a copy of `source`.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  explicit TemporaryDirectory(const std::filesystem::path& source);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, std::string_view content) const;
  void remove(const std::string& name) const { std::filesystem::remove(path_ / name); }

 private:
  std::filesystem::path path_;
};

}  // namespace lynx::model::testing
