#include "device/cuda_device.h"

// Builds without the CUDA toolkit: the same interface, refusing in words.

namespace lynx::cuda {
namespace {

Status refused() {
  return unimplemented("this build has no CUDA layer (built without the CUDA toolkit, or with LYNX_CUDA=OFF)");
}

}  // namespace

struct Event::Handle {};
struct Stream::Handle {};

bool compiled() {
  return false;
}
Result<std::vector<GpuInfo>> list_gpus() {
  return refused();
}

Result<Buffer> Buffer::allocate(Place, std::size_t) {
  return refused();
}
Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(Buffer&&) noexcept = default;
Buffer::~Buffer() = default;

Event::Event(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;
Event::~Event() = default;
Result<Event> Event::create() {
  return refused();
}
Result<bool> Event::ready() const {
  return refused();
}
Status Event::wait() const {
  return refused();
}

Stream::Stream(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;
Result<Stream> Stream::create() {
  return refused();
}
Status Stream::copy(void*, const void*, std::size_t) {
  return refused();
}
Status Stream::record(Event&) {
  return refused();
}
Status Stream::wait_for(const Event&) {
  return refused();
}
Status Stream::synchronize() {
  return refused();
}
void* Stream::native() const {
  return nullptr;
}

}  // namespace lynx::cuda
