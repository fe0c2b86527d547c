// How long an Anchor burst takes while Residuals saturate the link: lynx-bench-lanes. KvSender and KvReceiver over the UCX link, in
// two processes of one machine (two network namespaces) that share a directory, with units made up on the spot. Phases of bursts
// alone and of bursts over a backlog take turns. A burst's time is from being handed to the sender until its last unit is placed at
// the receiver, both by the machine's steady clock. One JSON object a phase.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "bench/two_ends.h"
#include "server/kv_receiver.h"
#include "server/kv_sender.h"
#include "transport/ucx_link.h"

namespace lynx::bench {
namespace {

using server::SessionId;
using transport::Lane;
using transport::Part;
using transport::TicketId;
using transport::UnitKey;
namespace fs = std::filesystem;

constexpr SessionId kSession = 1;
constexpr transport::TicketSecret kSecret = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr TicketId kAnchors{.boot = 1, .request = 1};
constexpr TicketId kResiduals{.boot = 1, .request = 2};
constexpr int kUnitsInBlock = 128;  ///< 64 layers, K and V.
constexpr std::uint32_t kAnchorBytes = 16 << 10;
constexpr std::uint32_t kResidualBytes = 24 << 10;
constexpr int kBursts = 2048;          ///< At most; a burst is a block of 2 MiB.
constexpr int kResidualBlocks = 4096;  ///< At most; those of a shared ticket lie behind the bursts.
constexpr std::uint64_t kPool = std::uint64_t{64} << 20;
constexpr double kWarmUpS = 1;  ///< Of a loaded phase, before the first burst; not measured.
constexpr double kDrainS = 60;

struct Options {
  transport::UcxLinkOptions link;
  std::string policy = "adaptive";
  std::uint64_t window_bytes = std::uint64_t{256} << 10;  ///< Of the fixed policy.
  std::uint64_t backlog_bytes = std::uint64_t{4} << 20;   ///< Handed to the sender and not acknowledged: never less, while loaded.
  double idle_s = 4;
  double loaded_s = 10;
  int repeats = 1;
  std::uint32_t seed = 1;

  bool fifo() const { return policy == "fifo"; }
};

/// Both processes' view of which bursts have arrived, and when (steady clock, µs; 0: not yet).
struct Board {
  std::atomic<std::int64_t> arrived_us[kBursts];
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

Result<Board*> open_board(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Board)) != 0) return resource_exhausted("no file for the board");
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return resource_exhausted("no memory for the board");
  return static_cast<Board*>(memory);  // A mapped file begins with zeros. It lives as long as the process.
}

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count();
}

std::uint32_t bytes_of(const UnitKey& unit) {
  return unit.block < kBursts ? kAnchorBytes : kResidualBytes;
}

std::uint64_t name_of(const UnitKey& unit) {
  return (unit.block * std::uint64_t{65536} + unit.layer) * 2 + static_cast<std::uint64_t>(unit.part);
}

std::vector<UnitKey> units_of_block(int block) {
  std::vector<UnitKey> units;
  for (int i = 0; i < kUnitsInBlock; ++i) {
    units.push_back(
        {static_cast<std::uint16_t>(i / 2), static_cast<Part>(i % 2), transport::Plane::kBf16, static_cast<std::uint32_t>(block)});
  }
  return units;
}

/// A unit's name, and noise behind it.
class Source final : public server::UnitSource {
 public:
  Source() : noise_(kResidualBytes) {
    std::mt19937 random(7);
    for (std::byte& value : noise_) value = static_cast<std::byte>(random());
  }
  Coded read(const UnitKey& unit, std::span<std::byte> out) override {
    const std::uint64_t name = name_of(unit);
    std::memcpy(out.data(), noise_.data(), bytes_of(unit));
    std::memcpy(out.data(), &name, sizeof name);
    return {unit.plane, bytes_of(unit)};
  }

 private:
  std::vector<std::byte> noise_;
};

class Sink final : public server::UnitSink {
 public:
  explicit Sink(Board* board) : board_(board), placed_(kBursts) {}
  Status place(const UnitKey& unit, std::span<const std::byte> bytes) override {
    std::uint64_t name = 0;
    std::memcpy(&name, bytes.data(), std::min(bytes.size(), sizeof name));
    if (bytes.size() != bytes_of(unit) || name != name_of(unit)) return Status(Code::kDataLoss, "a unit is another one");
    if (unit.block < kBursts && ++placed_[unit.block] == kUnitsInBlock) board_->arrived_us[unit.block] = now_us();
    return {};
  }

 private:
  Board* board_;
  std::vector<int> placed_;
};

class Events final : public server::KvSenderEvents, public server::KvReceiverEvents {
 public:
  void on_connected(SessionId, const Status& status) override { note(status, true); }
  void on_session_lost(SessionId, const Status& why) override { note(why, false); }
  void on_delivered(const TicketId&) override {}
  void on_closed(const TicketId&) override { note({Code::kUnavailable, "the transfer was given up"}, false); }
  void on_complete(const TicketId&, const transport::TransferBytes&) override {}
  void on_failed(const TicketId&, const Status& why) override { note(why, false); }
  void on_retired(const TicketId&) override {}

  Status wait_connected() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return connected_ || !failure_.ok(); });
    return failure_;
  }
  Status failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  void note(const Status& status, bool connected) {
    const std::lock_guard lock(mutex_);
    if (!status.ok()) failure_ = status;
    connected_ = connected_ || connected;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool connected_ = false;
  Status failure_;
};

Status run_receiver(const Options& options, const fs::path& folder) {
  LYNX_TRY(const auto link, transport::create_ucx_link(options.link));
  LYNX_TRY(Board* const board, open_board(folder / "board"));
  Events events;
  LYNX_TRY(const auto receiver,
           server::KvReceiver::create({.pool_bytes = kPool, .unit_bytes_max = kResidualBytes}, link.get(), &events));
  publish_address(folder, "receiver", link->address());
  link->start(receiver.get());
  LYNX_TRY(transport::LinkAddress sender, await_address(folder, "sender"));
  receiver->connect(kSession, std::move(sender));
  LYNX_RETURN_IF_ERROR(events.wait_connected());
  for (const TicketId& ticket : {kAnchors, kResiduals}) {
    receiver->expect(kSession,
                     {.ticket = ticket,
                      .secret = kSecret,
                      .layers = kUnitsInBlock / 2,
                      .blocks = kBursts + kResidualBlocks,
                      .planes = {transport::Plane::kBf16},
                      .unit_bytes_max = kResidualBytes},
                     std::make_shared<Sink>(board));
  }
  publish(folder / "ready", "");
  LYNX_RETURN_IF_ERROR(await(folder / "end", 3600).status());
  const Status failure = events.failure();
  link->stop();
  publish(folder / "ended", "");
  return failure;
}

/// The sender's side of a measurement: hands out bursts and backlog, and watches them arrive.
class Driver {
 public:
  Driver(const Options& options, server::KvSender* sender, Events* events, const Board* board)
      : options_(options), sender_(sender), events_(events), board_(board), random_(options.seed) {
    sender_->open({.session = kSession, .ticket = kAnchors, .secret = kSecret, .unit_bytes_max = kResidualBytes},
                  std::make_shared<Source>());
    if (!options.fifo()) {
      sender_->open({.session = kSession, .ticket = kResiduals, .secret = kSecret, .unit_bytes_max = kResidualBytes},
                    std::make_shared<Source>());
    }
  }

  /// One phase. Its first second is not measured: the window settles, and TCP begins slowly after a longer pause.
  Status run(bool loaded) {
    loaded_ = loaded;
    const auto begin = Clock::now();
    while (since(begin) < kWarmUpS) LYNX_RETURN_IF_ERROR(burst().status());
    std::vector<double> bursts_ms;
    const auto start = Clock::now();
    const std::uint64_t acked_before = sender_->stats().bytes_acknowledged;
    while (since(start) < (loaded ? options_.loaded_s : options_.idle_s)) {
      LYNX_TRY(const double took_ms, burst());
      bursts_ms.push_back(took_ms);
    }
    const std::uint64_t acked = sender_->stats().bytes_acknowledged - acked_before;
    const double took_s = since(start);
    loaded_ = false;
    LYNX_RETURN_IF_ERROR(pass(kDrainS, [&] { return sender_->stats().bytes_acknowledged == added_; }));
    fmt::print(R"({{"what": "{}", "policy": "{}", "seconds": {:.3f}, "bytes": {}, "bursts_ms": [{:.3f}]}})"
               "\n",
               loaded ? "loaded" : "idle", options_.policy, took_s, acked, fmt::join(bursts_ms, ", "));
    std::fflush(stdout);
    return {};
  }

 private:
  /// Sends one and pauses after it. Milliseconds until it had arrived.
  Result<double> burst() {
    if (next_burst_ == kBursts) return invalid_argument("too many bursts");
    const int number = next_burst_++;
    const std::int64_t start_us = now_us();
    add(kAnchors, Lane::kHigh, number);
    LYNX_RETURN_IF_ERROR(pass(kDrainS, [&] { return board_->arrived_us[number] != 0; }));
    if (board_->arrived_us[number] == 0) return Status(Code::kUnavailable, "a burst does not arrive");
    const double took_ms = static_cast<double>(board_->arrived_us[number] - start_us) * 1e-3;
    LYNX_RETURN_IF_ERROR(pass(std::uniform_real_distribution<double>(0.05, 0.2)(random_), [] { return false; }));
    return took_ms;
  }

  void add(const TicketId& ticket, Lane lane, int block) {
    auto units = units_of_block(block);
    for (const UnitKey& unit : units) added_ += bytes_of(unit);
    sender_->add_units(ticket, lane, std::move(units));
  }

  /// Lets time go by, the backlog kept up, until something happened.
  template <class Happened>
  Status pass(double seconds, Happened&& happened) {
    for (const auto start = Clock::now(); since(start) < seconds && !happened();
         std::this_thread::sleep_for(std::chrono::microseconds(500))) {
      LYNX_RETURN_IF_ERROR(events_->failure());
      while (loaded_ && added_ - sender_->stats().bytes_acknowledged < options_.backlog_bytes) {
        if (next_residual_ == kBursts + kResidualBlocks) return invalid_argument("too much backlog");
        const bool fifo = options_.fifo();
        add(fifo ? kAnchors : kResiduals, fifo ? Lane::kHigh : Lane::kBackground, next_residual_++);
      }
    }
    return {};
  }

  const Options& options_;
  server::KvSender* sender_;
  Events* events_;
  const Board* board_;
  std::mt19937 random_;
  bool loaded_ = false;
  int next_burst_ = 0;
  int next_residual_ = kBursts;
  std::uint64_t added_ = 0;
};

server::KvSenderOptions sender_options(const Options& options) {
  server::KvSenderOptions sending{.pool_bytes = kPool, .unit_bytes_max = kResidualBytes};
  if (options.policy == "fixed") sending.background_window_bytes = options.window_bytes;
  if (options.policy != "adaptive") sending.adaptive_window = false;
  return sending;
}

Status run_sender(const Options& options, const fs::path& folder) {
  LYNX_TRY(const auto link, transport::create_ucx_link(options.link));
  LYNX_TRY(Board* const board, open_board(folder / "board"));
  Events events;
  LYNX_TRY(const auto sender, server::KvSender::create(sender_options(options), link.get(), &events));
  publish_address(folder, "sender", link->address());
  link->start(sender.get());
  LYNX_TRY(transport::LinkAddress receiver, await_address(folder, "receiver"));
  sender->connect(kSession, std::move(receiver));
  LYNX_RETURN_IF_ERROR(events.wait_connected());
  LYNX_RETURN_IF_ERROR(await(folder / "ready").status());
  Driver driver(options, sender.get(), &events, board);
  Status status;
  for (int phase = 0; phase < 2 * options.repeats && status.ok(); ++phase) status = driver.run(phase % 2 == 1);
  publish(folder / "end", "");
  const Status ended = await(folder / "ended").status();
  link->stop();
  return status.ok() ? ended : status;
}

int exit_code(const char* end, const Status& status) {
  if (status.ok()) return 0;
  fmt::print(stderr, "lynx-bench-lanes ({}): {}\n", end, status.to_string());
  return 1;
}

}  // namespace
}  // namespace lynx::bench

int main(int argc, char** argv) {
  using namespace lynx;
  bench::Options options;
  std::string listen_folder;
  std::string connect_folder;
  CLI::App app("Anchor bursts under a saturating Residual backlog");
  app.add_option("--transports", options.link.transports, "tcp, shm, … (UCX_TLS); all of them by default");
  app.add_option("--net-devices", options.link.net_devices, "Interfaces, separated by commas (UCX_NET_DEVICES)");
  app.add_option("--policy", options.policy, "adaptive, fixed (window), unpaced (lanes), fifo (one lane)")
      ->check(CLI::IsMember({"adaptive", "fixed", "unpaced", "fifo"}));
  app.add_option("--window-bytes", options.window_bytes, "Of --policy fixed")->check(CLI::Range(1 << 14, 1 << 30));
  app.add_option("--backlog-bytes", options.backlog_bytes, "What is always waiting in a loaded phase")
      ->check(CLI::Range(1 << 16, 1 << 30));
  app.add_option("--idle-seconds", options.idle_s, "Of a phase of bursts alone")->check(CLI::Range(0.1, 600.0));
  app.add_option("--loaded-seconds", options.loaded_s, "Of a phase over the backlog")->check(CLI::Range(0.1, 600.0));
  app.add_option("--repeats", options.repeats, "Of both phases")->check(CLI::Range(1, 100));
  app.add_option("--seed", options.seed, "Of the pauses between bursts");
  auto* listen = app.add_option("--listen", listen_folder, "Receive; addresses through files in this directory, empty at first");
  auto* connect = app.add_option("--connect", connect_folder, "Send; the same directory as the receiver's")->excludes(listen);
  CLI11_PARSE(app, argc, argv);
  if (listen->count() != 0) return bench::exit_code("receiver", bench::run_receiver(options, listen_folder));
  if (connect->count() != 0) return bench::exit_code("sender", bench::run_sender(options, connect_folder));
  fmt::print(stderr, "lynx-bench-lanes: --listen or --connect is needed\n");
  return 2;
}
