#include "device/isa.h"

#include <string>

#include "tests/catch.h"

namespace lynx {
namespace {

constexpr Isa kAllIsas[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512Bf16, Isa::kAmxBf16};

TEST_CASE("Every machine runs the portable path, and each path's machine runs the weaker ones") {
  CHECK(isa_supported(Isa::kPortable));
  if (isa_supported(Isa::kAmxBf16)) CHECK(isa_supported(Isa::kAvx512Bf16));
  if (isa_supported(Isa::kAvx512Bf16)) CHECK(isa_supported(Isa::kAvx2));
}

TEST_CASE("A path can be chosen by name exactly where it is supported") {
  for (Isa isa : kAllIsas) {
    INFO(isa_name(isa));
    Result<Isa> chosen = choose_isa(isa_name(isa));
    REQUIRE(chosen.ok() == isa_supported(isa));
    if (chosen.ok()) {
      CHECK(*chosen == isa);
    } else {
      CHECK(chosen.status().code() == Code::kFailedPrecondition);
      CHECK(chosen.status().message().find("it can run portable") != std::string::npos);
    }
  }
}

TEST_CASE("auto chooses the best supported path") {
  Result<Isa> chosen = choose_isa("auto");
  REQUIRE(chosen.ok());
  for (Isa isa : kAllIsas) {
    if (isa_supported(isa)) CHECK(static_cast<int>(isa) <= static_cast<int>(*chosen));
  }
}

TEST_CASE("An unknown path is the caller's error and is named") {
  for (const char* name : {"", "AVX2", "avx512", "amx ", "portable\n"}) {
    Result<Isa> chosen = choose_isa(name);
    REQUIRE_FALSE(chosen.ok());
    CHECK(chosen.status().code() == Code::kInvalidArgument);
    CHECK(chosen.status().message().find('"' + std::string(name) + '"') != std::string::npos);
  }
}

}  // namespace
}  // namespace lynx
