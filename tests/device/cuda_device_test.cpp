#include "device/cuda_device.h"

#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace lynx::cuda {
namespace {

TEST_CASE("Without the CUDA layer everything is refused in words") {
  if (compiled()) return;  // The other case of this pair covers that build.
  CHECK(list_gpus().status().code() == Code::kUnimplemented);
  CHECK(Buffer::allocate(Buffer::Place::kGpu, 64).status().message().find("CUDA") != std::string::npos);
  CHECK(Event::create().status().code() == Code::kUnimplemented);
  CHECK(Stream::create().status().code() == Code::kUnimplemented);
}

TEST_CASE("Bytes go to the GPU and back, in the order of the stream") {
  if (!compiled()) return;  // See above.
  auto gpus = list_gpus();
  REQUIRE(gpus.ok());
  if (gpus->empty()) {
    std::puts("not run: copies over a stream (the CUDA layer is compiled in, but there is no GPU)");
    CHECK_FALSE(Buffer::allocate(Buffer::Place::kGpu, 64).ok());
    return;
  }
  constexpr std::size_t kBytes = 1 << 20;
  auto pinned = Buffer::allocate(Buffer::Place::kPinnedHost, kBytes);
  auto gpu = Buffer::allocate(Buffer::Place::kGpu, kBytes);
  auto stream = Stream::create();
  auto second = Stream::create();
  auto event = Event::create();
  REQUIRE((pinned.ok() && gpu.ok() && stream.ok() && second.ok() && event.ok()));
  auto* bytes = static_cast<unsigned char*>(pinned->data());
  std::iota(bytes, bytes + kBytes, static_cast<unsigned char>(1));
  REQUIRE(stream->copy(gpu->data(), bytes, kBytes).ok());
  REQUIRE(stream->record(*event).ok());
  REQUIRE(second->wait_for(*event).ok());
  std::vector<unsigned char> back(kBytes);
  REQUIRE(second->copy(back.data(), gpu->data(), kBytes).ok());
  REQUIRE(second->synchronize().ok());
  CHECK(*event->ready());
  CHECK(std::equal(back.begin(), back.end(), bytes));
  Buffer moved = std::move(*gpu);
  CHECK(gpu->data() == nullptr);
  CHECK(moved.size() == kBytes);
}

TEST_CASE("A GPU allocation that cannot succeed names its size") {
  if (!compiled() || !list_gpus().ok() || list_gpus()->empty()) return;  // Needs a GPU; the case above says when there is none.
  auto refused = Buffer::allocate(Buffer::Place::kGpu, std::size_t{1} << 50);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == Code::kResourceExhausted);
  CHECK(refused.status().message().find("1125899906842624") != std::string::npos);
}

}  // namespace
}  // namespace lynx::cuda
