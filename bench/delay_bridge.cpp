// A bridge between two interfaces that holds every frame back for a while: lynx-bench-delay-bridge IF_A IF_B DELAY_US. Runs in the
// network namespace of the two, as root. It stands in for netem, which many kernels lack. Frames travel with their virtio-net
// headers, so that large segments and unfinished checksums pass as they are. Prints "ready" when frames pass.

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

namespace {

constexpr std::size_t kFrameBytesMax = 10 + 14 + 65536;  // virtio-net header, Ethernet header, the largest segment.
constexpr int kSocketBytes = 16 << 20;
constexpr std::size_t kHeldBytesMax = std::size_t{256} << 20;  // Beyond it frames are lost, as in a full queue.
constexpr int kFramesARound = 64;

using Clock = std::chrono::steady_clock;

struct Frame {
  Clock::time_point due;
  std::vector<char> bytes;
};

bool set(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/// −1, with a word on stderr.
int open_interface(const char* name) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(name));
  if (fd < 0 || address.sll_ifindex == 0 || !set(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) ||
      !set(fd, SOL_PACKET, PACKET_VNET_HDR, 1) || bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    std::fprintf(stderr, "lynx-bench-delay-bridge: %s: %s\n", name, std::strerror(errno));
    return -1;
  }
  set(fd, SOL_SOCKET, SO_RCVBUFFORCE, kSocketBytes);
  set(fd, SOL_SOCKET, SO_SNDBUFFORCE, kSocketBytes);
  return fd;
}

/// One direction.
class Direction {
 public:
  Direction(int from, int to, std::chrono::microseconds delay) : from_(from), to_(to), delay_(delay) {}

  void take_in() {
    std::array<char, kFrameBytesMax> buffer;
    const auto due = Clock::now() + delay_;
    for (int i = 0; i < kFramesARound; ++i) {
      const ssize_t bytes = recv(from_, buffer.data(), buffer.size(), 0);
      if (bytes <= 0) return;
      if (held_bytes_ > kHeldBytesMax) continue;
      held_bytes_ += static_cast<std::size_t>(bytes);
      held_.push_back({due, {buffer.data(), buffer.data() + bytes}});
    }
  }

  /// Sends what is due; when the next one is.
  Clock::time_point send_due(Clock::time_point now, Clock::time_point latest) {
    for (; !held_.empty() && held_.front().due <= now; held_.pop_front()) {
      const std::vector<char>& bytes = held_.front().bytes;
      (void)!send(to_, bytes.data(), bytes.size(), 0);  // A link that is down loses frames.
      held_bytes_ -= bytes.size();
    }
    return held_.empty() ? latest : std::min(latest, held_.front().due);
  }

 private:
  int from_;
  int to_;
  std::chrono::microseconds delay_;
  std::deque<Frame> held_;
  std::size_t held_bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: lynx-bench-delay-bridge IF_A IF_B DELAY_US\n");
    return 2;
  }
  const int a = open_interface(argv[1]);
  const int b = open_interface(argv[2]);
  if (a < 0 || b < 0) return 1;
  const std::chrono::microseconds delay(std::atoll(argv[3]));
  Direction there(a, b, delay);
  Direction back(b, a, delay);
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    const auto now = Clock::now();
    auto next = there.send_due(now, now + std::chrono::milliseconds(50));
    next = back.send_due(now, next);
    const auto wait = std::chrono::duration_cast<std::chrono::nanoseconds>(next - now).count();
    std::array<pollfd, 2> fds = {{{a, POLLIN, 0}, {b, POLLIN, 0}}};
    const timespec timeout{0, static_cast<long>(std::max<std::int64_t>(wait, 0))};
    ppoll(fds.data(), fds.size(), &timeout, nullptr);
    if (fds[0].revents != 0) there.take_in();
    if (fds[1].revents != 0) back.take_in();
  }
}
