// The units of a probe.

#include <spdlog/fmt/fmt.h>

#include "server/cache_units.h"

namespace lynx::server {
namespace {

using transport::Plane;
using transport::UnitKey;

// Differs from unit to unit, so that one in another's place is noticed.
std::byte probe_byte(const UnitKey& unit, std::uint32_t index) {
  return static_cast<std::byte>((index * 31 + unit.block * 7 + static_cast<unsigned>(unit.part) * 3 + (index >> 8)) & 0xff);
}

class ProbeSource final : public UnitSource {
 public:
  explicit ProbeSource(std::uint32_t unit_bytes) : unit_bytes_(unit_bytes) {}
  Coded read(const UnitKey& unit, std::span<std::byte> out) override {
    for (std::uint32_t i = 0; i < unit_bytes_; ++i) out[i] = probe_byte(unit, i);
    return {Plane::kBf16, unit_bytes_};
  }

 private:
  std::uint32_t unit_bytes_;
};

class ProbeSink final : public UnitSink {
 public:
  explicit ProbeSink(std::uint32_t unit_bytes) : unit_bytes_(unit_bytes) {}
  Status place(const UnitKey& unit, std::span<const std::byte> bytes) override {
    if (bytes.size() != unit_bytes_) return {Code::kDataLoss, fmt::format("a probe's unit has {} bytes", bytes.size())};
    for (std::uint32_t i = 0; i < unit_bytes_; ++i) {
      if (bytes[i] != probe_byte(unit, i)) return {Code::kDataLoss, "a probe's unit holds other bytes"};
    }
    return {};
  }

 private:
  std::uint32_t unit_bytes_;
};

}  // namespace

std::shared_ptr<UnitSource> make_probe_source(std::uint32_t unit_bytes) {
  return std::make_shared<ProbeSource>(unit_bytes);
}
std::shared_ptr<UnitSink> make_probe_sink(std::uint32_t unit_bytes) {
  return std::make_shared<ProbeSink>(unit_bytes);
}

}  // namespace lynx::server
