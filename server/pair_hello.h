#pragma once

// What two nodes tell each other first, and whether they can work together.

#include <string>

#include "common/status.h"
#include "proto/lynx/v1/pair.pb.h"
#include "quant/plane_profile.h"
#include "transport/link.h"
#include "transport/wire_header.h"

namespace lynx::server {

/// Of proto/lynx/v1/pair.proto and docs/wire_format.md together: raised with every change that an older node would not understand.
inline constexpr std::uint32_t kPairProtocol = 2;

/// FAILED_PRECONDITION naming the first field in which the two must be equal and are not: protocol, UCX version, model weights,
/// tokenizer, KV dtype, block size, cache shape; or a peer without an address of each
/// lane or one of our transfer modes, or with a profile of other layers. `theirs` is
/// untrusted.
Status check_compatible(const v1::NodeHello& ours, const v1::NodeHello& theirs);

/// Fills in how our data plane is reached (UCX version, an address for each lane) and a boot nonce of its own.
void add_data_plane(const transport::Link& link, v1::NodeHello* ours);

/// What the data plane really uses against --require-transport: FAILED_PRECONDITION naming both. Empty requires nothing.
Status check_transport(const std::string& required, const transport::LinkInfo& used);

/// The prefill node's plane profile as it travels in its hello. `hello` is checked: check_compatible().
void add_profile(const quant::PlaneProfile& profile, v1::NodeHello* hello);
quant::PlaneProfile profile_of(const v1::NodeHello& hello);

/// Whether both compute the same bits.
bool same_numerics(const v1::NodeHello& ours, const v1::NodeHello& theirs);

/// What is in --pair-secret-file: its first line. INVALID_ARGUMENT naming the file when it cannot be read, or holds less than 16
/// characters or what cannot travel in a header.
Result<std::string> read_pair_secret(const std::string& path);

/// 128 bits from the system's random source, as they travel in messages.
std::string random_secret();
/// As they stand in wire headers. Missing bytes are zero.
transport::TicketSecret to_ticket_secret(const std::string& bytes);

}  // namespace lynx::server
