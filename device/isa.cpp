#include "device/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

namespace lynx {
namespace {

constexpr std::array kAllIsas{Isa::kPortable, Isa::kAvx2, Isa::kAvx512Bf16, Isa::kAmxBf16};

struct CpuidRegisters {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidRegisters cpuid(unsigned leaf, unsigned subleaf) {
  CpuidRegisters r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);  // Leaves zeros when the leaf does not exist.
  return r;
}

constexpr bool has_bits(std::uint64_t word, std::uint64_t bits) {
  return (word & bits) == bits;
}

constexpr std::uint64_t bit(int index) {
  return std::uint64_t{1} << index;
}

/// The register states that the kernel saves for us; 0 where it offers no XSAVE at all.
std::uint64_t enabled_register_states() {
  constexpr int kOsxsave = 27;
  if (!has_bits(cpuid(1, 0).ecx, bit(kOsxsave))) return 0;
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

// The bits below are those of Intel's manual, volume 2A, CPUID.
bool has_avx2() {
  constexpr std::uint64_t kSseAvxState = bit(1) | bit(2);
  constexpr std::uint64_t kFmaAvxF16c = bit(12) | bit(28) | bit(29);
  constexpr std::uint64_t kAvx2Bmi2 = bit(5) | bit(8);
  return has_bits(enabled_register_states(), kSseAvxState) && has_bits(cpuid(1, 0).ecx, kFmaAvxF16c) &&
         has_bits(cpuid(7, 0).ebx, kAvx2Bmi2);
}

bool has_avx512_bf16() {
  constexpr std::uint64_t kAvx512State = bit(5) | bit(6) | bit(7);
  constexpr std::uint64_t kFDqBwVl = bit(16) | bit(17) | bit(30) | bit(31);
  constexpr std::uint64_t kVbmi = bit(1);
  constexpr std::uint64_t kBf16 = bit(5);
  return has_avx2() && has_bits(enabled_register_states(), kAvx512State) && has_bits(cpuid(7, 0).ebx, kFDqBwVl) &&
         has_bits(cpuid(7, 0).ecx, kVbmi) && has_bits(cpuid(7, 1).eax, kBf16);
}

bool has_amx_bf16() {
  constexpr std::uint64_t kTileState = bit(17) | bit(18);
  constexpr std::uint64_t kBf16Tile = bit(22) | bit(24);
  if (!has_avx512_bf16() || !has_bits(enabled_register_states(), kTileState) || !has_bits(cpuid(7, 0).edx, kBf16Tile)) return false;
  // Tile data is saved only for processes that ask (Linux, Documentation/arch/x86/xstate.rst); threads inherit the permission.
  constexpr int kArchReqXcompPerm = 0x1023;
  constexpr int kXfeatureTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
}

std::string supported_names() {
  std::string names;
  for (Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    if (!names.empty()) names += ", ";
    names += isa_name(isa);
  }
  return names;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kPortable: return "portable";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512Bf16: return "avx512bf16";
    case Isa::kAmxBf16: return "amxbf16";
  }
  return "unknown";
}

bool isa_supported(Isa isa) {
  static const std::array<bool, kAllIsas.size()> supported{true, has_avx2(), has_avx512_bf16(), has_amx_bf16()};
  return supported[static_cast<std::size_t>(isa)];
}

Result<Isa> choose_isa(std::string_view name) {
  if (name == "auto") {
    Isa best = Isa::kPortable;
    for (Isa isa : kAllIsas) {
      if (isa_supported(isa)) best = isa;
    }
    return best;
  }
  for (Isa isa : kAllIsas) {
    if (name != isa_name(isa)) continue;
    if (isa_supported(isa)) return isa;
    return Status(Code::kFailedPrecondition,
                  "isa \"" + std::string(name) + "\": this machine cannot run it; it can run " + supported_names());
  }
  return invalid_argument("isa \"" + std::string(name) + "\": unknown; one of auto, portable, avx2, avx512bf16, amxbf16");
}

}  // namespace lynx
