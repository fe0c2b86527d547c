// Whoever reaches the data port: random bytes at every TCP port that this process listens on.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "tests/catch.h"
#include "tests/transport/ucx_node.h"

namespace lynx::transport {
namespace {

constexpr std::uint32_t kSeed = 4711;

std::set<std::string> own_socket_inodes() {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();  // "socket:[12345]"
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

/// IPv4 addresses (network order) and ports that this process listens on, from /proc/net/tcp.
std::vector<sockaddr_in> own_listeners() {
  const std::set<std::string> own = own_socket_inodes();
  std::vector<sockaddr_in> listeners;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    if (state != "0A" || own.count(inode) == 0) continue;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = static_cast<in_addr_t>(std::stoul(local.substr(0, 8), nullptr, 16));
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoul(local.substr(9), nullptr, 16)));
    listeners.push_back(address);
  }
  return listeners;
}

/// One stranger: connects, writes `bytes`, and waits until the other side hangs up or half a second is over.
void visit(const sockaddr_in& address, const std::vector<std::byte>& bytes, bool linger) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(fd >= 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    timeval wait{0, linger ? 500'000 : 1'000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    std::array<char, 256> answer{};
    (void)!::recv(fd, answer.data(), answer.size(), 0);
  }
  close(fd);
}

TEST_CASE("random bytes at the data ports leave the link alive and working", "[ucx]") {
  UcxNode a(tcp_options());
  UcxNode b(tcp_options());
  const PeerId to_b = a.connect(b.link().address());
  std::uint32_t sequence = 0;
  const auto exchange = [&] {
    a.send_all(to_b, {make_message(Lane::kHigh, sequence, kSeed, 5000), make_message(Lane::kBackground, sequence, kSeed, 50000)},
               2 * sequence + 1);
    ++sequence;
    b.wait_until("messages", [&](const UcxRecord& record) { return record.messages.size() == 2 * sequence; });
  };
  exchange();

  const std::vector<sockaddr_in> ports = own_listeners();
  REQUIRE(ports.size() >= 2 * kLanes);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 60; ++round) {
    for (const sockaddr_in& port : ports) {
      std::vector<std::byte> bytes(1 + random() % (round % 10 == 0 ? 200'000 : 300));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(round % 4 == 3 ? 0 : random());
      visit(port, bytes, round % 20 == 0);
    }
    if (round % 10 == 9) exchange();
  }
  INFO("seed " << kSeed);
  CHECK(a.record().lost.empty());
  UcxNode late(tcp_options());
  late.send_all(late.connect(b.link().address()), {make_message(Lane::kHigh, 1, kSeed, 100)}, 1);
  b.wait_until("a message of a newcomer", [&](const UcxRecord& record) { return record.messages.size() == 2 * sequence + 1; });
}

}  // namespace
}  // namespace lynx::transport
