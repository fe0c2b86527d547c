// The planes on a GPU against the CPU's codec, bit for bit.

#include "quant/plane_cuda.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "tests/catch.h"
#include "tests/quant/plane_fixture.h"
#include "tests/quant/plane_samples.h"

namespace lynx::quant {
namespace {

constexpr int kUnits = 7;  // The last warps of a thread block have none.

/// ctest shows the test as skipped by these words.
bool has_gpu() {
  const auto gpus = cuda::list_gpus();
  if (gpus.ok() && !gpus->empty()) return true;
  std::puts("skipped: no GPU");
  return false;
}

/// An array in GPU memory.
template <class T>
class OnGpu {
 public:
  OnGpu(cuda::Stream& stream, std::size_t count) : stream_(stream), count_(count), buffer_(allocate(count)) {
    const std::vector<T> filled(count, T(0x5a));
    REQUIRE(stream_.copy(data(), filled.data(), count * sizeof(T)).ok());
    REQUIRE(stream_.synchronize().ok());
  }
  OnGpu(cuda::Stream& stream, const std::vector<T>& values) : OnGpu(stream, values.size()) {
    REQUIRE(stream_.copy(data(), values.data(), values.size() * sizeof(T)).ok());
    REQUIRE(stream_.synchronize().ok());
  }
  T* data() const { return static_cast<T*>(buffer_.data()); }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    REQUIRE(stream_.copy(values.data(), data(), count_ * sizeof(T)).ok());
    REQUIRE(stream_.synchronize().ok());
    return values;
  }

 private:
  static cuda::Buffer allocate(std::size_t count) {
    auto buffer = cuda::Buffer::allocate(cuda::Buffer::Place::kGpu, count * sizeof(T));
    REQUIRE(buffer.ok());
    return std::move(buffer).value();
  }

  cuda::Stream& stream_;
  std::size_t count_;
  cuda::Buffer buffer_;
};

/// Parts of equal size one behind the other.
template <class T>
void append(std::vector<T>* all, const std::vector<T>& part, std::size_t size) {
  all->insert(all->end(), part.begin(), part.end());
  all->resize(all->size() + size - part.size());
}

/// What the CPU makes of kUnits units.
struct Expected {
  std::vector<Bf16> values, anchor_view, int8_view;
  PlaneBytes anchors, int8, exact;
  std::vector<std::uint32_t> exact_bytes;
};

Expected on_cpu(const PlaneUnit& unit, int kind, std::mt19937_64& rng) {
  Expected all;
  const std::size_t slots = unit_slots(unit);
  for (int i = 0; i < kUnits; ++i) {
    const PlaneValues values = sample_values(kind, slots, rng);
    const PlaneBytes anchor = make_anchor(unit, values);
    PlaneValues view(slots);
    append(&all.values, values, slots);
    append(&all.anchors, anchor, anchor.size());
    REQUIRE(decode_anchor(Isa::kPortable, unit, anchor, view).ok());
    append(&all.anchor_view, view, slots);
    const PlaneBytes exact = make_exact_residual(unit, anchor, values);
    append(&all.exact, exact, exact_residual_bound(unit));
    all.exact_bytes.push_back(static_cast<std::uint32_t>(exact.size()));
    if (unit.wide_anchor) continue;
    const PlaneBytes int8 = make_int8_residual(unit, anchor, values);
    append(&all.int8, int8, int8.size());
    REQUIRE(decode_int8(Isa::kPortable, unit, anchor, int8, view).ok());
    append(&all.int8_view, view, slots);
  }
  return all;
}

void check_anchors(const CudaPlanes& planes, cuda::Stream& stream, const CudaUnits& units, const Expected& expected) {
  const OnGpu<Bf16> values(stream, expected.values);
  const OnGpu<std::byte> anchors(stream, expected.anchors.size());
  REQUIRE(planes.encode_anchors(stream, units, values.data(), anchors.data()).ok());
  CHECK((anchors.read() == expected.anchors));
  const OnGpu<Bf16> view(stream, expected.values.size());
  REQUIRE(planes.decode_views(stream, units, anchors.data(), nullptr, view.data()).ok());
  CHECK((view.read() == expected.anchor_view));
  if (units.unit.wide_anchor) return;
  const OnGpu<std::byte> residuals(stream, expected.int8.size());
  REQUIRE(planes.encode_int8_residuals(stream, units, anchors.data(), values.data(), residuals.data()).ok());
  CHECK((residuals.read() == expected.int8));
  REQUIRE(planes.decode_views(stream, units, anchors.data(), residuals.data(), view.data()).ok());
  CHECK((view.read() == expected.int8_view));
}

void check_exact(const CudaPlanes& planes, cuda::Stream& stream, const CudaUnits& units, const Expected& expected) {
  const std::size_t bound = exact_residual_bound(units.unit);
  const OnGpu<Bf16> values(stream, expected.values);
  const OnGpu<std::byte> anchors(stream, expected.anchors);
  const OnGpu<std::byte> residuals(stream, expected.exact.size());
  const OnGpu<std::uint32_t> bytes(stream, kUnits);
  REQUIRE(planes.encode_exact_residuals(stream, units, anchors.data(), values.data(), residuals.data(), bytes.data()).ok());
  CHECK(bytes.read() == expected.exact_bytes);
  const PlaneBytes written = residuals.read();
  for (std::size_t i = 0; i < kUnits; ++i) {
    CHECK(std::memcmp(written.data() + i * bound, expected.exact.data() + i * bound, expected.exact_bytes[i]) == 0);
  }

  // The second unit's last byte is missing.
  std::vector<std::uint32_t> lengths = expected.exact_bytes;
  lengths[1] -= lengths[1] == 0 ? 0 : 2;
  const OnGpu<std::uint32_t> cut(stream, lengths);
  const OnGpu<std::byte> read(stream, expected.exact);
  const OnGpu<Bf16> back(stream, expected.values.size());
  const OnGpu<std::uint32_t> sound(stream, kUnits);
  REQUIRE(planes.decode_exact(stream, units, anchors.data(), read.data(), cut.data(), back.data(), sound.data()).ok());
  const std::vector<std::uint32_t> judged = sound.read();
  const std::vector<Bf16> values_back = back.read();
  const std::size_t slots = unit_slots(units.unit);
  for (std::size_t i = 0; i < kUnits; ++i) {
    const bool whole = expected.exact_bytes[i] != 0 && i != 1;
    CHECK(judged[i] == (whole ? 1u : 0u));
    if (!whole) continue;
    const auto at = [&](const std::vector<Bf16>& all) {
      return PlaneValues(all.begin() + i * slots, all.begin() + (i + 1) * slots);
    };
    CHECK((at(values_back) == coded_values(units.unit, at(expected.values))));
  }
}

TEST_CASE("a GPU writes and reads the bytes of the CPU's codec") {
  if (!has_gpu()) return;
  const auto planes = CudaPlanes::create();
  auto stream = cuda::Stream::create();
  REQUIRE((planes.ok() && stream.ok()));
  std::mt19937_64 rng(7);
  for (const PlaneUnit& unit : sample_units()) {
    for (int kind = 0; kind < kSampleKinds; ++kind) {
      INFO((unit.part == PlanePart::kK ? "K " : "V ") << unit.heads << "x" << unit.head_dim << " first " << unit.first_block
                                                      << " wide " << unit.wide_anchor << " kind " << kind);
      const Expected expected = on_cpu(unit, kind, rng);
      check_anchors(*planes, *stream, {unit, kUnits}, expected);
      check_exact(*planes, *stream, {unit, kUnits}, expected);
    }
  }
}

TEST_CASE("without the CUDA layer the planes on a GPU are refused in words") {
  if (cuda::compiled()) return;  // The case above covers that build.
  const Status refused = CudaPlanes::create().status();
  CHECK(refused.code() == Code::kUnimplemented);
  CHECK(refused.message().find("CUDA") != std::string::npos);
}

}  // namespace
}  // namespace lynx::quant
