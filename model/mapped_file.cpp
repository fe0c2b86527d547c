#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace lynx::model {
namespace {

Status system_failure(const std::string& path, const char* what) {
  const int error = errno;
  const std::string message = fmt::format("{}: {}: {}", path, what, std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? not_found(message) : invalid_argument(message);
}

Result<std::span<const std::byte>> map_descriptor(int descriptor, const std::string& path) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return system_failure(path, "cannot be examined");
  if (!S_ISREG(info.st_mode)) return invalid_argument(path + ": not a regular file");
  if (info.st_size == 0) return invalid_argument(path + ": the file is empty");
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) return system_failure(path, "cannot be mapped");
  madvise(data, size, MADV_WILLNEED);  // A hint: read ahead while the header is parsed.
  return std::span<const std::byte>{static_cast<const std::byte*>(data), size};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: a FIFO must be refused, not waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return system_failure(path, "cannot be opened");
  auto mapping = map_descriptor(descriptor, path);
  ::close(descriptor);
  if (!mapping.ok()) return mapping.status();
  return MappedFile(path, mapping->data(), mapping->size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop_pages() {
  if (data_ != nullptr) madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

}  // namespace lynx::model
