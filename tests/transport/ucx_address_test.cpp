// Seals of worker addresses, and names of network devices: what is refused before UCX sees it.

#include <random>

#include "tests/catch.h"
#include "transport/ucx_address.h"
#include "transport/ucx_devices.h"
#include "transport/ucx_link.h"

namespace lynx::transport {
namespace {

constexpr UcxVersion kVersion{1, 22, 0};

std::string sealed(Lane lane, const UcxVersion& version, std::string_view address) {
  return seal_address(lane, version, std::as_bytes(std::span(address.data(), address.size())));
}

TEST_CASE("a sealed address comes back", "[ucx]") {
  std::mt19937 random(7);
  for (std::size_t bytes : {1UL, 2UL, 100UL, 513UL, kUcxAddressBytesMax}) {
    std::string address(bytes, '\0');
    for (char& byte : address) byte = static_cast<char>(random());
    for (Lane lane : {Lane::kHigh, Lane::kBackground}) {
      const std::string seal = sealed(lane, kVersion, address);
      Result<std::string_view> back = unseal_address(lane, kVersion, seal);
      REQUIRE(back.ok());
      CHECK(*back == address);
    }
  }
}

TEST_CASE("every change of a sealed address is found", "[ucx]") {
  const std::string good = sealed(Lane::kHigh, kVersion, "a worker's address");
  for (std::size_t i = 0; i < good.size() * 8; ++i) {
    std::string bad = good;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << i % 8));
    INFO("bit " << i);
    CHECK(unseal_address(Lane::kHigh, kVersion, bad).status().code() == Code::kInvalidArgument);
  }
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    INFO("cut to " << bytes);
    CHECK_FALSE(unseal_address(Lane::kHigh, kVersion, good.substr(0, bytes)).ok());
  }
  CHECK_FALSE(unseal_address(Lane::kHigh, kVersion, good + '\0').ok());
  CHECK_FALSE(unseal_address(Lane::kHigh, kVersion, sealed(Lane::kHigh, kVersion, std::string(kUcxAddressBytesMax + 1, 'x'))).ok());
  CHECK_FALSE(unseal_address(Lane::kHigh, kVersion, sealed(Lane::kHigh, kVersion, "")).ok());
}

TEST_CASE("an address of another lane or UCX version is refused by name", "[ucx]") {
  const std::string other_lane = sealed(Lane::kBackground, kVersion, "address");
  CHECK(unseal_address(Lane::kHigh, kVersion, other_lane).status().message() == "address of lane 0: it is lane 1's");
  const std::string older = sealed(Lane::kHigh, {1, 13, 1}, "address");
  CHECK(unseal_address(Lane::kHigh, kVersion, older).status().message() ==
        "address of lane 0: made by UCX 1.13.1, this node has 1.22.0");
}

TEST_CASE("network devices are checked by name", "[ucx]") {
  const std::vector<NetDevice> present = {{"lo", true, ""}, {"eth0", true, ""}, {"eth1", false, "is down"}, {"mlx5_0:1", true, ""}};
  CHECK(check_net_devices("lo", present).ok());
  CHECK(check_net_devices("eth0,mlx5_0:1", present).ok());
  CHECK(check_net_devices("eth7", present).message() == "network device 'eth7' does not exist; usable ones: lo, eth0, mlx5_0:1");
  CHECK(check_net_devices("lo,eth1", present).message() == "network device 'eth1' is down; usable ones: lo, eth0, mlx5_0:1");
  CHECK(check_net_devices("lo,", present).message() == "network device '' does not exist; usable ones: lo, eth0, mlx5_0:1");
  CHECK(check_net_devices("x", {}).message() == "network device 'x' does not exist; usable ones: none");
}

TEST_CASE("a link refuses a network device that is not there, and names those that are", "[ucx]") {
  Result<std::unique_ptr<Link>> link = create_ucx_link({"nosuch0", ""});
  REQUIRE_FALSE(link.ok());
  CHECK(link.status().code() == Code::kInvalidArgument);
  CHECK(link.status().message().find("'nosuch0'") != std::string::npos);
  CHECK(link.status().message().find("lo") != std::string::npos);
}

TEST_CASE("a link refuses transports that are not there", "[ucx]") {
  Result<std::unique_ptr<Link>> link = create_ucx_link({"", "nosuch"});
  REQUIRE_FALSE(link.ok());
  CHECK(link.status().message().find("nosuch") != std::string::npos);
}

}  // namespace
}  // namespace lynx::transport
