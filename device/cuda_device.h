#pragma once

// The CUDA side of device/: memory, streams and events as owning values. No CUDA type appears here; cuda_device.cu implements it
// where the CUDA toolkit is found (LYNX_CUDA), cuda_device_none.cpp elsewhere, where everything is refused with UNIMPLEMENTED. API:
// CUDA Runtime API, sections "Memory Management", "Stream Management", "Event Management".

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"

namespace lynx::cuda {

/// Whether this build contains the CUDA layer.
bool compiled();

struct GpuInfo {
  int index;
  std::string name;
  std::int64_t memory_bytes;
  int compute_major;
  int compute_minor;
};

/// The GPUs that the driver shows; empty when there is no driver or no GPU. UNIMPLEMENTED when the layer is not compiled in.
Result<std::vector<GpuInfo>> list_gpus();

/// GPU memory, or page-locked host memory that a GPU can copy from and to asynchronously. Owns; movable.
class Buffer {
 public:
  enum class Place { kGpu, kPinnedHost };

  /// RESOURCE_EXHAUSTED, naming the size, when the allocation fails. Uses the calling thread's current GPU.
  static Result<Buffer> allocate(Place place, std::size_t bytes);
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  ~Buffer();

  void* data() const { return data_; }
  std::size_t size() const { return size_; }
  Place place() const { return place_; }

 private:
  Buffer(Place place, void* data, std::size_t size) : place_(place), data_(data), size_(size) {}

  Place place_;
  void* data_;
  std::size_t size_;
};

/// A point in a stream's work. Movable; not thread-safe.
class Event {
 public:
  static Result<Event> create();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;
  ~Event();

  /// True when all work before the recorded point is done. Does not block.
  Result<bool> ready() const;
  /// Blocks until then.
  Status wait() const;

 private:
  friend class Stream;
  struct Handle;
  explicit Event(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

/// An ordered queue of work on one GPU, independent of other streams. Movable; one thread at a time.
class Stream {
 public:
  static Result<Stream> create();
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  /// Queues a copy of `bytes` between any two of GPU and host memory; both must outlive its completion.
  Status copy(void* destination, const void* source, std::size_t bytes);
  Status record(Event& event);
  /// Later work here starts after `event`.
  Status wait_for(const Event& event);
  /// Blocks until all queued work is done.
  Status synchronize();
  /// The cudaStream_t, for kernels of other rooms.
  void* native() const;

 private:
  struct Handle;
  explicit Stream(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

}  // namespace lynx::cuda
