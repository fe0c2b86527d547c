// Goodput of the UCX link: lynx-bench-link. By default two processes of this machine; with --listen and --connect two machines that
// share a directory for the addresses. Beside it, in the same run: memcpy and a raw TCP socket, because absolute figures of a
// shared machine mean little. A byte counts when the receiver has copied it out and said so.

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <thread>

#include "transport/ucx_link.h"

namespace lynx::transport {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kPoolBytes = std::size_t{32} << 20;  // Beyond the caches: payloads come from memory, as KV does.
constexpr std::size_t kPayloadBytesMax = 1 << 20;

struct BenchOptions {
  UcxLinkOptions link;
  std::vector<std::size_t> payload_bytes = {24 << 10, 32 << 10, 64 << 10};
  std::size_t window_bytes = 4 << 20;
  double seconds = 1;
};

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What the header carries here: bytes received so far (receiver), or whether this is the last message (sender).
WireBytes header_with(std::uint64_t value) {
  WireBytes header{};
  std::memcpy(header.data(), &value, sizeof value);
  return header;
}

std::uint64_t value_of(std::span<const std::byte> header) {
  std::uint64_t value = 0;
  std::memcpy(&value, header.data(), sizeof value);
  return value;
}

void write_address(const std::filesystem::path& path, const LinkAddress& address) {
  const std::filesystem::path partial = path.string() + ".part";
  {
    std::ofstream file(partial, std::ios::binary);
    for (const std::string& lane : address.lanes) {
      const std::uint64_t bytes = lane.size();
      file.write(reinterpret_cast<const char*>(&bytes), sizeof bytes);
      file << lane;
    }
  }
  std::filesystem::rename(partial, path);  // Readers see all of it or nothing.
}

LinkAddress wait_for_address(const std::filesystem::path& path) {
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::ifstream file(path, std::ios::binary);
  LinkAddress address;
  std::uint64_t bytes = 0;
  while (file.read(reinterpret_cast<char*>(&bytes), sizeof bytes) && bytes <= 1 << 20) {
    file.read(address.lanes.emplace_back(bytes, '\0').data(), static_cast<std::streamsize>(bytes));
  }
  return address;
}

/// One end: connects to the other, and says when it is through.
class End : public LinkHandler {
 public:
  End(Link* link, LinkAddress peer) : link_(link), address_(std::move(peer)) {}

  std::int64_t on_tick(std::int64_t) override {
    if (peer_ == 0 && !done_) {
      Result<PeerId> peer = link_->connect(address_);
      if (peer.ok()) {
        peer_ = *peer;
      } else {
        finish(peer.status());
      }
    }
    act();
    return kNever;
  }
  void on_peer_lost(PeerId, const Status& why) override { finish(why); }

  Status wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_.load(); });
    done_ = false;
    return status_;
  }

 protected:
  virtual void act() {}
  void finish(const Status& status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
    done_ = true;
    changed_.notify_all();
  }

  Link* link_;
  PeerId peer_ = 0;

 private:
  LinkAddress address_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> done_ = false;
  Status status_;
};

class Receiver final : public End {
 public:
  using End::End;
  void on_message(Lane lane, std::span<const std::byte> header, std::span<const std::byte> payload) override {
    if (payload.size() > kPayloadBytesMax) return;
    if (value_of(header) == 1) return finish({});
    std::memcpy(landing_.data() + place_, payload.data(), payload.size());
    place_ = (place_ + payload.size()) % (kPoolBytes - kPayloadBytesMax);
    received_ += payload.size();
    link_->send(peer_, lane, header_with(received_), {}, 0);
  }
  void on_sent(std::uint64_t, const Status&) override {}

 private:
  std::vector<std::byte> landing_ = std::vector<std::byte>(kPoolBytes);
  std::size_t place_ = 0;
  std::uint64_t received_ = 0;
};

class Sender final : public End {
 public:
  Sender(Link* link, LinkAddress peer, std::span<std::byte> pool, std::size_t window_bytes)
      : End(link, std::move(peer)), pool_(pool), window_bytes_(window_bytes) {}

  /// Bytes a second that the receiver has acknowledged. Any other thread.
  Result<double> measure(std::size_t payload_bytes, double seconds) {
    const auto start = Clock::now();
    payload_bytes_ = payload_bytes;
    const std::uint64_t before = acknowledged_;
    running_ = true;
    link_->wake();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const double rate = static_cast<double>(acknowledged_ - before) / since(start);
    running_ = false;
    link_->wake();
    LYNX_RETURN_IF_ERROR(wait());
    return rate;
  }
  void say_end() {
    ending_ = true;
    link_->wake();
    (void)wait();
  }
  LinkInfo info() const { return info_; }

  void on_message(Lane, std::span<const std::byte> header, std::span<const std::byte>) override {
    acknowledged_ = value_of(header);
    act();
  }
  void on_sent(std::uint64_t token, const Status&) override {
    if (token == kEndToken) finish({});
  }

 private:
  static constexpr std::uint64_t kEndToken = 1;

  void act() override {
    if (peer_ == 0) return;
    if (ending_.exchange(false)) link_->send(peer_, Lane::kHigh, header_with(1), {}, kEndToken);
    while (running_ && sent_ + payload_bytes_ <= acknowledged_ + window_bytes_) {
      link_->send(peer_, Lane::kHigh, header_with(0), pool_.subspan(place_, payload_bytes_), 0);
      place_ = (place_ + payload_bytes_) % (kPoolBytes - kPayloadBytesMax);
      sent_ += payload_bytes_;
      was_running_ = true;
    }
    if (!running_ && was_running_ && sent_ == acknowledged_) {
      was_running_ = false;
      info_ = link_->info(peer_);
      finish({});
    }
  }

  std::span<std::byte> pool_;
  std::size_t window_bytes_;
  std::atomic<std::size_t> payload_bytes_ = 0;
  std::atomic<bool> running_ = false;
  std::atomic<bool> ending_ = false;
  std::atomic<std::uint64_t> acknowledged_ = 0;
  bool was_running_ = false;
  std::uint64_t sent_ = 0;
  std::size_t place_ = 0;
  LinkInfo info_;
};

double memcpy_rate(std::size_t payload_bytes, double seconds) {
  std::vector<std::byte> from(kPoolBytes, std::byte{1});
  std::vector<std::byte> to(kPoolBytes, std::byte{2});
  std::uint64_t bytes = 0;
  std::size_t place = 0;
  const auto start = Clock::now();
  while (since(start) < seconds) {
    std::memcpy(to.data() + place, from.data() + place, payload_bytes);
    place = (place + payload_bytes) % (kPoolBytes - kPayloadBytesMax);
    bytes += payload_bytes;
  }
  return static_cast<double>(bytes) / since(start);
}

/// A blocking TCP socket over lo, one thread at each end; 0 if it cannot be had.
double raw_tcp_rate(std::size_t payload_bytes, double seconds) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t address_bytes = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, generic, sizeof address) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, generic, &address_bytes) != 0 || connect(out, generic, sizeof address) != 0) {
    return 0;
  }
  const int in = accept(listener, nullptr, nullptr);
  std::atomic<std::uint64_t> received = 0;
  std::thread reader([&] {
    std::vector<std::byte> buffer(kPoolBytes);
    std::size_t place = 0;
    ssize_t bytes = 0;
    while ((bytes = read(in, buffer.data() + place, payload_bytes)) > 0) {
      received += static_cast<std::uint64_t>(bytes);
      place = (place + static_cast<std::size_t>(bytes)) % (kPoolBytes - kPayloadBytesMax);
    }
  });
  std::vector<std::byte> pool(kPoolBytes, std::byte{3});
  std::size_t place = 0;
  const auto start = Clock::now();
  while (since(start) < seconds && ::send(out, pool.data() + place, payload_bytes, MSG_NOSIGNAL) > 0) {
    place = (place + payload_bytes) % (kPoolBytes - kPayloadBytesMax);
  }
  const double rate = static_cast<double>(received) / since(start);
  close(out);
  reader.join();
  close(in);
  close(listener);
  return rate;
}

int fail(const Status& status) {
  std::fprintf(stderr, "lynx-bench-link: %s\n", status.to_string().c_str());
  return 1;
}

int run_receiver(const BenchOptions& options, const std::filesystem::path& folder) {
  Result<std::unique_ptr<Link>> link = create_ucx_link(options.link);
  if (!link.ok()) return fail(link.status());
  write_address(folder / "receiver", (*link)->address());
  Receiver receiver(link->get(), wait_for_address(folder / "sender"));
  (*link)->start(&receiver);
  const Status status = receiver.wait();
  (*link)->stop();
  return status.ok() ? 0 : fail(status);
}

int run_sender(const BenchOptions& options, const std::filesystem::path& folder) {
  Result<std::unique_ptr<Link>> link = create_ucx_link(options.link);
  if (!link.ok()) return fail(link.status());
  Result<std::span<std::byte>> pool = (*link)->allocate(kPoolBytes);
  if (!pool.ok()) return fail(pool.status());
  write_address(folder / "sender", (*link)->address());
  Sender sender(link->get(), wait_for_address(folder / "receiver"), *pool, options.window_bytes);
  (*link)->start(&sender);
  std::printf("payload_bytes transport device  GB/s  of_memcpy  of_raw_tcp_on_lo\n");
  Status status;
  for (std::size_t bytes : options.payload_bytes) {
    Result<double> rate = sender.measure(bytes, options.seconds);
    if (!rate.ok()) {
      status = rate.status();
      break;
    }
    const double copy = memcpy_rate(bytes, options.seconds / 4);
    const double tcp = raw_tcp_rate(bytes, options.seconds / 2);
    std::printf("%13zu %9s %6s %5.2f %10.2f %17.2f\n", bytes, sender.info().transport.c_str(), sender.info().device.c_str(),
                *rate / 1e9, *rate / copy, tcp > 0 ? *rate / tcp : 0.0);
    std::fflush(stdout);
  }
  if (status.ok()) sender.say_end();
  (*link)->stop();
  return status.ok() ? 0 : fail(status);
}

int run_both(const BenchOptions& options) {
  std::string name = (std::filesystem::temp_directory_path() / "lynx-bench-link-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) return fail(resource_exhausted("no temporary directory"));
  const pid_t child = fork();  // Before either has touched UCX, whose threads and mappings do not survive it.
  if (child == 0) _exit(run_receiver(options, name));
  const int result = run_sender(options, name);
  kill(child, SIGKILL);  // The figures are ours already.
  waitpid(child, nullptr, 0);
  std::filesystem::remove_all(name);
  return result;
}

}  // namespace
}  // namespace lynx::transport

int main(int argc, char** argv) {
  using namespace lynx::transport;
  BenchOptions options;
  std::string listen_folder;
  std::string connect_folder;
  CLI::App app("Goodput of the UCX link between two processes");
  app.add_option("--transports", options.link.transports, "tcp, shm, … (UCX_TLS); all of them by default");
  app.add_option("--net-devices", options.link.net_devices, "Interfaces, separated by commas (UCX_NET_DEVICES)");
  app.add_option("--payload-bytes", options.payload_bytes, "Sizes to measure")->check(CLI::Range(std::size_t{1}, kPayloadBytesMax));
  app.add_option("--window-bytes", options.window_bytes, "Unacknowledged bytes")->check(CLI::Range(kPayloadBytesMax, kPoolBytes));
  app.add_option("--seconds", options.seconds, "A size")->check(CLI::Range(0.05, 600.0));
  auto* listen = app.add_option("--listen", listen_folder, "Receive; addresses through files in this directory, empty at first");
  app.add_option("--connect", connect_folder, "Send; the same directory as the receiver's")->excludes(listen);
  CLI11_PARSE(app, argc, argv);
  if (!listen_folder.empty()) return run_receiver(options, listen_folder);
  if (!connect_folder.empty()) return run_sender(options, connect_folder);
  return run_both(options);
}
