#include "device/host_buffer.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "tests/catch.h"

namespace lynx {
namespace {

TEST_CASE("A buffer is zeroed, writable to its last byte and page-aligned") {
  for (std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{4097}, (std::size_t{2} << 20) - 1, std::size_t{2} << 20,
                            (std::size_t{5} << 20) + 3}) {
    INFO("bytes " << bytes);
    Result<HostBuffer> buffer = HostBuffer::allocate(bytes);
    REQUIRE(buffer.ok());
    REQUIRE(buffer->size() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer->data()) % 4096 == 0);
    auto span = buffer->span();
    CHECK(std::all_of(span.begin(), span.end(), [](std::byte b) { return b == std::byte{0}; }));
    std::fill(span.begin(), span.end(), std::byte{0xa5});
    CHECK(span.back() == std::byte{0xa5});
  }
}

TEST_CASE("Large buffers lie on a huge-page border") {
  Result<HostBuffer> buffer = HostBuffer::allocate(std::size_t{8} << 20);
  REQUIRE(buffer.ok());
  CHECK(reinterpret_cast<std::uintptr_t>(buffer->data()) % (std::size_t{2} << 20) == 0);
}

TEST_CASE("An empty buffer is a value like any other") {
  Result<HostBuffer> buffer = HostBuffer::allocate(0);
  REQUIRE(buffer.ok());
  CHECK(buffer->size() == 0);
  CHECK(buffer->data() == nullptr);
}

TEST_CASE("Moving hands the memory over") {
  HostBuffer first = HostBuffer::allocate(100).value();
  first.data()[99] = std::byte{7};
  const std::byte* memory = first.data();
  HostBuffer second = std::move(first);
  CHECK(second.data() == memory);
  HostBuffer third = HostBuffer::allocate(50).value();
  third = std::move(second);
  CHECK(third.data() == memory);
  CHECK(third.size() == 100);
  CHECK(third.data()[99] == std::byte{7});
}

TEST_CASE("What the system refuses is RESOURCE_EXHAUSTED and names the size") {
  for (std::size_t bytes : {std::size_t{1} << 47, (std::size_t{1} << 47) + 1, ~std::size_t{0}}) {
    Result<HostBuffer> buffer = HostBuffer::allocate(bytes);
    REQUIRE_FALSE(buffer.ok());
    CHECK(buffer.status().code() == Code::kResourceExhausted);
    CHECK(buffer.status().message().find("GiB") != std::string::npos);
  }
}

}  // namespace
}  // namespace lynx
