#include "server/pair_hello.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <random>

#include <spdlog/fmt/fmt.h>

namespace lynx::server {
namespace {

constexpr std::size_t kLeastSecretLength = 16;
constexpr std::size_t kMostSecretBytes = 4096;
constexpr std::size_t kMaxShownLength = 64;

std::string shown(const std::string& text) {
  std::string clean = text.substr(0, kMaxShownLength);
  std::replace_if(
      clean.begin(), clean.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return clean;
}
std::string shown(std::uint32_t number) {
  return std::to_string(number);
}

template <class T>
Status must_equal(const char* field, const T& ours, const T& theirs) {
  if (ours == theirs) return {};
  return {Code::kFailedPrecondition, fmt::format("{} differs: ours is {}, the peer's {}", field, shown(ours), shown(theirs))};
}

}  // namespace

Status check_compatible(const v1::NodeHello& ours, const v1::NodeHello& theirs) {
  LYNX_RETURN_IF_ERROR(must_equal("protocol", ours.protocol(), theirs.protocol()));
  LYNX_RETURN_IF_ERROR(must_equal("ucx_version", ours.ucx_version(), theirs.ucx_version()));
  LYNX_RETURN_IF_ERROR(must_equal("weights", ours.weights(), theirs.weights()).with_context("model"));
  LYNX_RETURN_IF_ERROR(must_equal("tokenizer", ours.tokenizer(), theirs.tokenizer()));
  LYNX_RETURN_IF_ERROR(must_equal("kv_dtype", ours.kv_dtype(), theirs.kv_dtype()));
  LYNX_RETURN_IF_ERROR(must_equal("block_tokens", ours.block_tokens(), theirs.block_tokens()));
  LYNX_RETURN_IF_ERROR(must_equal("layers", ours.layers(), theirs.layers()));
  LYNX_RETURN_IF_ERROR(must_equal("kv_heads", ours.kv_heads(), theirs.kv_heads()));
  LYNX_RETURN_IF_ERROR(must_equal("head_dim", ours.head_dim(), theirs.head_dim()));
  if (theirs.lanes_size() != transport::kLanes) {
    return {Code::kFailedPrecondition,
            fmt::format("lanes: {} addresses, there must be {}", theirs.lanes_size(), transport::kLanes)};
  }
  for (const std::uint32_t layer : theirs.wide_k_layers()) {
    if (layer < ours.layers()) continue;
    return {Code::kFailedPrecondition, fmt::format("wide_k_layers: {} of {} layers", layer, ours.layers())};
  }
  for (const std::string& mode : ours.transfers()) {
    if (std::find(theirs.transfers().begin(), theirs.transfers().end(), mode) == theirs.transfers().end()) {
      return {Code::kFailedPrecondition, fmt::format("transfers: the peer lacks {}", mode)};
    }
  }
  return {};
}

void add_data_plane(const transport::Link& link, v1::NodeHello* ours) {
  std::uint64_t boot = 0;
  std::memcpy(&boot, random_secret().data(), sizeof boot);
  ours->set_boot(boot);
  ours->set_ucx_version(link.library_version());
  for (const std::string& lane : link.address().lanes) ours->add_lanes(lane);
}

void add_profile(const quant::PlaneProfile& profile, v1::NodeHello* hello) {
  for (std::uint32_t layer = 0; layer < hello->layers(); ++layer) {
    if (profile.is_wide_k(static_cast<int>(layer))) hello->add_wide_k_layers(layer);
  }
}

quant::PlaneProfile profile_of(const v1::NodeHello& hello) {
  quant::PlaneProfile profile{.wide_k = std::vector<bool>(hello.layers())};
  for (const std::uint32_t layer : hello.wide_k_layers()) profile.wide_k.at(layer) = true;
  return profile;
}

Status check_transport(const std::string& required, const transport::LinkInfo& used) {
  if (used.transport.find(required) != std::string::npos) return {};
  return {Code::kFailedPrecondition, fmt::format("--require-transport {}: the data plane uses {}", required, used.transport)};
}

bool same_numerics(const v1::NodeHello& ours, const v1::NodeHello& theirs) {
  return !ours.numerics().empty() && ours.numerics() == theirs.numerics();
}

Result<std::string> read_pair_secret(const std::string& path) {
  // Bounded: a path such as /dev/zero never ends.
  std::ifstream file(path, std::ios::binary);
  std::string secret(kMostSecretBytes + 1, '\0');
  file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  if (!file.is_open() || file.bad() || file.gcount() == 0)
    return invalid_argument("--pair-secret-file: cannot read a line from " + path);
  secret.resize(std::min(static_cast<std::size_t>(file.gcount()), secret.find('\n')));
  if (secret.size() > kMostSecretBytes) return invalid_argument("--pair-secret-file: the first line of " + path + " is too long");
  if (!secret.empty() && secret.back() == '\r') secret.pop_back();
  if (secret.size() < kLeastSecretLength) {
    return invalid_argument(fmt::format("--pair-secret-file: {} holds less than {} characters", path, kLeastSecretLength));
  }
  if (std::any_of(secret.begin(), secret.end(), [](char c) { return c <= ' ' || c > '~'; })) {
    return invalid_argument("--pair-secret-file: " + path + " holds a character that is not visible ASCII");
  }
  return secret;
}

std::string random_secret() {
  std::random_device source;
  std::string secret;
  while (secret.size() < sizeof(transport::TicketSecret)) {
    const unsigned word = source();
    for (int shift = 0; shift < 32; shift += 8) secret += static_cast<char>(word >> shift);
  }
  return secret;
}

transport::TicketSecret to_ticket_secret(const std::string& bytes) {
  transport::TicketSecret secret{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), secret.size()), secret.begin());
  return secret;
}

}  // namespace lynx::server
