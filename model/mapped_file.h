#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace lynx::model {

/// A regular file mapped read-only and private. Owns the mapping; movable, not copyable. The bytes never move, so views into them
/// outlive a move of the MappedFile.
///
/// The size is taken once, at open(), and everything is checked against it. A file that another process shortens afterwards raises
/// SIGBUS on access, as with every mapped file: replace model files by renaming a new one over them, never in place.
class MappedFile {
 public:
  /// NOT_FOUND when there is no such file; INVALID_ARGUMENT for an empty one, a directory, a device or no permission, naming path
  /// and reason.
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }

  /// Lets the kernel take the resident pages back. They are read again if touched, so this is safe at any time.
  void drop_pages();

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size) : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lynx::model
