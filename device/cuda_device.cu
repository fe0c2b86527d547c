#include "device/cuda_device.h"

#include <cuda_runtime.h>

#include <utility>

namespace lynx::cuda {
namespace {

Status to_status(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  Code code = error == cudaErrorMemoryAllocation ? Code::kResourceExhausted : Code::kInternal;
  return {code, std::string(call) + ": " + cudaGetErrorString(error)};
}

}  // namespace

struct Event::Handle {
  cudaEvent_t event = nullptr;
  ~Handle() {
    if (event != nullptr) cudaEventDestroy(event);
  }
};

struct Stream::Handle {
  cudaStream_t stream = nullptr;
  ~Handle() {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
};

bool compiled() {
  return true;
}

Result<std::vector<GpuInfo>> list_gpus() {
  std::vector<GpuInfo> gpus;
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) return gpus;
  LYNX_RETURN_IF_ERROR(to_status(error, "cudaGetDeviceCount"));
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    LYNX_RETURN_IF_ERROR(to_status(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties"));
    gpus.push_back(
        {index, properties.name, static_cast<std::int64_t>(properties.totalGlobalMem), properties.major, properties.minor});
  }
  return gpus;
}

Result<Buffer> Buffer::allocate(Place place, std::size_t bytes) {
  void* data = nullptr;
  cudaError_t error = place == Place::kGpu ? cudaMalloc(&data, bytes) : cudaMallocHost(&data, bytes);
  if (error != cudaSuccess) {
    const char* kind = place == Place::kGpu ? "GPU" : "page-locked host";
    return to_status(error, "cudaMalloc").with_context(std::to_string(bytes) + " bytes of " + kind + " memory");
  }
  return Buffer(place, data, bytes);
}

Buffer::Buffer(Buffer&& other) noexcept
    : place_(other.place_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(place_, other.place_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (place_ == Place::kGpu) {
    cudaFree(data_);
  } else {
    cudaFreeHost(data_);
  }
}

Event::Event(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;
Event::~Event() = default;

Result<Event> Event::create() {
  auto handle = std::make_unique<Handle>();
  LYNX_RETURN_IF_ERROR(to_status(cudaEventCreateWithFlags(&handle->event, cudaEventDisableTiming), "cudaEventCreate"));
  return Event(std::move(handle));
}

Result<bool> Event::ready() const {
  cudaError_t error = cudaEventQuery(handle_->event);
  if (error == cudaErrorNotReady) return false;
  LYNX_RETURN_IF_ERROR(to_status(error, "cudaEventQuery"));
  return true;
}

Status Event::wait() const {
  return to_status(cudaEventSynchronize(handle_->event), "cudaEventSynchronize");
}

Stream::Stream(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

Result<Stream> Stream::create() {
  auto handle = std::make_unique<Handle>();
  LYNX_RETURN_IF_ERROR(to_status(cudaStreamCreateWithFlags(&handle->stream, cudaStreamNonBlocking), "cudaStreamCreate"));
  return Stream(std::move(handle));
}

Status Stream::copy(void* destination, const void* source, std::size_t bytes) {
  return to_status(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, handle_->stream), "cudaMemcpyAsync");
}

Status Stream::record(Event& event) {
  return to_status(cudaEventRecord(event.handle_->event, handle_->stream), "cudaEventRecord");
}

Status Stream::wait_for(const Event& event) {
  return to_status(cudaStreamWaitEvent(handle_->stream, event.handle_->event, 0), "cudaStreamWaitEvent");
}

Status Stream::synchronize() {
  return to_status(cudaStreamSynchronize(handle_->stream), "cudaStreamSynchronize");
}

void* Stream::native() const {
  return handle_->stream;
}

}  // namespace lynx::cuda
