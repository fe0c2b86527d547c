// The other process of the death tests: lynx_ucx_echo DEVICES TRANSPORTS. Prints its lanes' addresses in hex, a line each, reads
// the peer's from stdin, and sends every message back until stdin ends or it is killed.

#include <cstdio>
#include <iostream>
#include <limits>
#include <list>
#include <string>

#include "tests/transport/ucx_hex.h"
#include "transport/ucx_link.h"

namespace lynx::transport {
namespace {

class Echo final : public LinkHandler {
 public:
  Echo(Link* link, LinkAddress peer) : link_(link), address_(std::move(peer)) {}

  void on_message(Lane lane, std::span<const std::byte> header, std::span<const std::byte> payload) override {
    WireBytes bytes{};
    std::copy(header.begin(), header.end(), bytes.begin());
    const auto& kept = under_way_.emplace_back(payload.begin(), payload.end());
    link_->send(peer_, lane, bytes, kept, 0);
  }
  void on_sent(std::uint64_t, const Status&) override {}
  void on_peer_lost(PeerId, const Status&) override {}
  std::int64_t on_tick(std::int64_t) override {
    if (peer_ == 0) {
      Result<PeerId> peer = link_->connect(address_);
      if (peer.ok()) peer_ = *peer;
    }
    return std::numeric_limits<std::int64_t>::max();
  }

 private:
  Link* link_;
  LinkAddress address_;
  PeerId peer_ = 0;
  std::list<std::vector<std::byte>> under_way_;
};

int run(const UcxLinkOptions& options) {
  Result<std::unique_ptr<Link>> link = create_ucx_link(options);
  if (!link.ok()) {
    std::cerr << link.status().to_string() << "\n";
    return 1;
  }
  for (const std::string& lane : (*link)->address().lanes) std::cout << to_hex(lane) << std::endl;
  LinkAddress peer;
  std::string line;
  for (int i = 0; i < kLanes && std::getline(std::cin, line); ++i) peer.lanes.push_back(from_hex(line));
  Echo echo(link->get(), std::move(peer));
  (*link)->start(&echo);
  while (std::getline(std::cin, line)) {
  }
  (*link)->stop();
  return 0;
}

}  // namespace
}  // namespace lynx::transport

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return lynx::transport::run({argv[1], argv[2]});
}
