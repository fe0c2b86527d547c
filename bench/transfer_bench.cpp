// Goodput of the data plane: lynx-bench-transfer. KvSender and KvReceiver over the UCX link, between two KV caches; values are
// normal, as a KV cache's nearly are. By default two processes of this machine; with --listen and --connect two machines, or two
// network namespaces, that share a directory for the addresses. Beside every transfer, in the same run, a TCP stream takes the same
// bytes; and in the end the receiver compares its cache with what was sent. One JSON object a line; a byte counts when it is
// acknowledged, which is when it lies in the receiver's cache.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <random>
#include <set>

#include "bench/tcp_stream.h"
#include "bench/two_ends.h"
#include "kv/kv_units.h"
#include "server/cache_units.h"
#include "transport/ucx_link.h"

namespace lynx::bench {
namespace {

using server::SessionId;
using server::TransferMode;
using transport::LinkAddress;
using transport::TicketId;
namespace fs = std::filesystem;

constexpr SessionId kSession = 1;
constexpr transport::TicketSecret kSecret = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
constexpr int kPassTokens = 512;  ///< Of one prefill pass: its units become ready layer by layer.

struct Options {
  transport::UcxLinkOptions link;
  kv::KvShape shape{30, 3, 64};  ///< SmolLM2-135M's.
  int tokens = 2048;
  int repeats = 3;
  std::vector<std::string> modes = {"bf16", "lossless"};
  std::string tcp_host = "127.0.0.1";
  bool compare_tcp = true;
  std::uint64_t window_bytes = server::KvReceiverOptions{}.high_credit_bytes;
  std::uint64_t pool_bytes = server::KvReceiverOptions{}.pool_bytes;

  int blocks() const { return kv::blocks_for(tokens); }
  int tickets() const { return repeats * static_cast<int>(modes.size()); }
  TransferMode mode(int ticket) const {
    return *server::parse_transfer_mode(modes[static_cast<std::size_t>(ticket) % modes.size()]);
  }
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The values of any unit: the same at both ends.
class Pattern {
 public:
  Pattern() : values_(kValues) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.1F, 2.0F);
    for (Bf16& value : values_) value = float_to_bf16(normal(random));
  }
  void fill(const transport::UnitKey& unit, std::span<Bf16> out) const {
    const std::size_t number = (unit.block * std::size_t{4096} + unit.layer) * 2 + static_cast<std::size_t>(unit.part);
    const std::size_t start = number * 7919 % kValues;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = values_[(start + i) % kValues];
  }

 private:
  static constexpr std::size_t kValues = 1 << 16;
  std::vector<Bf16> values_;
};

template <class Use>
void for_each_unit(const Options& options, Use&& use) {
  std::vector<Bf16> values(kv::unit_values(options.shape, kv::kBlockTokens));
  for (int layer = 0; layer < options.shape.layers; ++layer) {
    for (const auto& unit : server::completed_units(layer, 0, options.tokens, options.tokens, {}).first) {
      const int tokens = std::min(kv::kBlockTokens, options.tokens - static_cast<int>(unit.block) * kv::kBlockTokens);
      use(unit, tokens, unit.part == transport::Part::kK ? kv::KvPart::kK : kv::KvPart::kV,
          std::span(values).first(kv::unit_values(options.shape, tokens)));
    }
  }
}

void fill(kv::KvCache& cache, const Options& options) {
  const Pattern pattern;
  for_each_unit(options, [&](const auto& unit, int tokens, kv::KvPart part, std::span<Bf16> values) {
    pattern.fill(unit, values);
    kv::write_unit(cache, unit.layer, static_cast<kv::BlockId>(unit.block), part, tokens, values);
  });
}

bool holds_what_was_sent(const kv::KvCache& cache, const Options& options) {
  Result<kv::KvCache> sent = kv::KvCache::create(options.shape, options.blocks());
  if (!sent.ok()) return false;
  fill(*sent, options);
  bool same = true;
  std::vector<Bf16> other(kv::unit_values(options.shape, kv::kBlockTokens));
  for_each_unit(options, [&](const auto& unit, int tokens, kv::KvPart part, std::span<Bf16> values) {
    const auto block = static_cast<kv::BlockId>(unit.block);
    kv::read_unit(*sent, unit.layer, block, part, tokens, values);
    kv::read_unit(cache, unit.layer, block, part, tokens, std::span(other).first(values.size()));
    same = same && std::memcmp(values.data(), other.data(), values.size_bytes()) == 0;
  });
  return same;
}

server::PromptBlocks prompt_in(kv::KvCache& cache, const Options& options) {
  server::PromptBlocks prompt{.cache = &cache, .blocks = {}, .tokens = options.tokens};
  for (int block = 0; block < options.blocks(); ++block) prompt.blocks.push_back(block);
  return prompt;
}

TicketId ticket_id(int ticket) {
  return {.boot = 1, .request = static_cast<std::uint64_t>(ticket) + 1};
}

/// What the other threads of an end wait for.
class Events final : public server::KvSenderEvents, public server::KvReceiverEvents {
 public:
  void on_connected(SessionId, const Status& status) override { note(status, 0); }
  void on_session_lost(SessionId, const Status& why) override { note(why, 0); }
  void on_delivered(const TicketId& ticket) override { note({}, ticket.request); }
  void on_closed(const TicketId&) override { note({Code::kUnavailable, "the transfer was given up"}, 0); }
  void on_complete(const TicketId& ticket, const transport::TransferBytes&) override { note({}, ticket.request); }
  void on_failed(const TicketId&, const Status& why) override { note(why, 0); }
  void on_retired(const TicketId&) override {}

  /// Until this happened: a ticket's number, or 0 for being connected.
  Status wait(std::uint64_t what) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !failure_.ok() || happened_.count(what) != 0; });
    return failure_;
  }
  bool happened(std::uint64_t what) {
    const std::lock_guard lock(mutex_);
    return happened_.count(what) != 0;
  }

 private:
  void note(const Status& status, std::uint64_t what) {
    const std::lock_guard lock(mutex_);
    if (!status.ok()) failure_ = status;
    happened_.insert(what);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::uint64_t> happened_;
  Status failure_;
};

Status run_receiver(const Options& options, const fs::path& folder) {
  LYNX_TRY(const auto link, transport::create_ucx_link(options.link));
  LYNX_TRY(kv::KvCache cache, kv::KvCache::create(options.shape, options.blocks()));
  LYNX_TRY(kv::AnchorCache anchors,
           kv::AnchorCache::create(options.shape.layers, options.blocks(), server::largest_anchor_bytes(options.shape)));
  LYNX_TRY(const Isa isa, choose_isa("auto"));
  Events events;
  const std::uint32_t unit_bytes = server::largest_unit_bytes(options.shape);
  const server::KvReceiverOptions receiving{
      .high_credit_bytes = options.window_bytes, .pool_bytes = options.pool_bytes, .unit_bytes_max = unit_bytes};
  LYNX_TRY(const auto receiver, server::KvReceiver::create(receiving, link.get(), &events));
  std::uint16_t port = 0;
  LYNX_TRY(const Socket listener, tcp_listen(&port));
  publish(folder / "tcp", std::to_string(port));
  publish_address(folder, "receiver", link->address());
  link->start(receiver.get());
  LYNX_TRY(LinkAddress sender, await_address(folder, "sender"));
  receiver->connect(kSession, std::move(sender));
  LYNX_RETURN_IF_ERROR(events.wait(0));
  for (int ticket = 0; ticket < options.tickets(); ++ticket) {
    const server::PromptCoding coding{.mode = options.mode(ticket), .profile = {}, .isa = isa};
    transport::TransferExpectation expectation = server::expect_units(options.shape, options.tokens, coding);
    expectation.ticket = ticket_id(ticket);
    expectation.secret = kSecret;
    receiver->expect(kSession, std::move(expectation), server::make_cache_sink(prompt_in(cache, options), coding, &anchors));
  }
  publish(folder / "ready", std::to_string(options.tickets()));
  const double cpu_before = cpu_seconds();
  LYNX_RETURN_IF_ERROR(tcp_serve(listener));  // Until the sender is through.
  const double cpu = cpu_seconds() - cpu_before;
  const auto stats = receiver->stats();
  link->stop();
  for (int ticket = 0; ticket < options.tickets(); ++ticket) {
    if (!events.happened(ticket_id(ticket).request)) return internal_error(fmt::format("transfer {} is not complete", ticket));
  }
  if (!holds_what_was_sent(cache, options)) return internal_error("the receiver's cache is not the sender's");
  fmt::print(R"({{"what": "receiver", "cpu_s": {:.3f}, "acks": {}, "unplaced": {}, "duplicate": {}, "damaged": {}}})"
             "\n",
             cpu, stats.acks_sent, stats.chunks_unplaced, stats.chunks_duplicate, stats.chunks_damaged);
  return {};
}

/// Sends one prompt as a prefill node does: pass by pass, layer by layer. All units are there from the start: only the data plane
/// is measured.
Status send_prompt(server::KvSender& sender, const Options& options, int ticket, const server::PromptCoding& coding,
                   std::shared_ptr<server::UnitSource> source) {
  sender.open({.session = kSession,
               .ticket = ticket_id(ticket),
               .secret = kSecret,
               .unit_bytes_max = server::largest_unit_bytes(options.shape),
               .expected_bytes = server::prompt_cache_bytes(options.shape, options.tokens)},
              std::move(source));
  for (int start = 0; start < options.tokens; start += kPassTokens) {
    const int end = std::min(start + kPassTokens, options.tokens);
    for (int layer = 0; layer < options.shape.layers; ++layer) {
      server::CompletedUnits units = server::completed_units(layer, start, end, options.tokens, coding);
      sender.add_units(ticket_id(ticket), transport::Lane::kHigh, std::move(units.first));
      if (!units.residuals.empty()) {
        sender.add_units(ticket_id(ticket), transport::Lane::kBackground, std::move(units.residuals));
      }
    }
  }
  sender.finish(ticket_id(ticket));
  return {};
}

/// Seconds to copy the cache's bytes once, the better of three.
double copy_seconds(std::uint64_t bytes) {
  constexpr std::size_t kPiece = 32 << 20;  // Beyond the caches.
  const std::vector<std::byte> from(kPiece, std::byte{1});
  std::vector<std::byte> to(kPiece, std::byte{2});
  double best = 1e9;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto start = Clock::now();
    std::memcpy(to.data(), from.data(), kPiece);
    best = std::min(best, since(start));
  }
  return best * static_cast<double>(bytes) / kPiece;
}

Status measure(server::KvSender& sender, Events& events, kv::KvCache& cache, const Options& options, const Socket& tcp) {
  LYNX_TRY(const Isa isa, choose_isa("auto"));
  const std::uint64_t kv_bytes = server::prompt_cache_bytes(options.shape, options.tokens);
  for (int ticket = 0; ticket < options.tickets(); ++ticket) {
    const TransferMode mode = options.mode(ticket);
    const auto before = sender.stats();
    const double cpu_before = cpu_seconds();
    const auto start = Clock::now();
    const server::PromptCoding coding{.mode = mode, .profile = {}, .isa = isa};
    LYNX_RETURN_IF_ERROR(
        send_prompt(sender, options, ticket, coding, server::make_cache_source(prompt_in(cache, options), coding)));
    LYNX_RETURN_IF_ERROR(events.wait(ticket_id(ticket).request));
    const double seconds = since(start);
    const double cpu = cpu_seconds() - cpu_before;
    const auto after = sender.stats();
    const std::uint64_t wire_bytes = after.bytes_acknowledged - before.bytes_acknowledged;
    double tcp_seconds = 0;
    if (options.compare_tcp) {
      LYNX_TRY(tcp_seconds, tcp_transfer(tcp, wire_bytes));
    }
    const transport::LinkInfo info = sender.link_info(kSession);
    fmt::print(R"({{"what": "{}", "transport": "{}", "device": "{}", "kv_bytes": {}, "wire_bytes": {}, "seconds": {:.6f}, )"
               R"("cpu_s": {:.3f}, "resent": {}, "tcp_seconds": {:.6f}, "copy_seconds": {:.6f}}})"
               "\n",
               server::transfer_mode_name(mode), info.transport, info.device, kv_bytes, wire_bytes, seconds, cpu,
               after.chunks_resent - before.chunks_resent, tcp_seconds, copy_seconds(wire_bytes));
    std::fflush(stdout);
  }
  return {};
}

Status run_sender(const Options& options, const fs::path& folder) {
  LYNX_TRY(const auto link, transport::create_ucx_link(options.link));
  LYNX_TRY(kv::KvCache cache, kv::KvCache::create(options.shape, options.blocks()));
  fill(cache, options);
  Events events;
  const server::KvSenderOptions sending{.high_window_bytes = options.window_bytes,
                                        .pool_bytes = options.pool_bytes,
                                        .unit_bytes_max = server::largest_unit_bytes(options.shape)};
  LYNX_TRY(const auto sender, server::KvSender::create(sending, link.get(), &events));
  publish_address(folder, "sender", link->address());
  link->start(sender.get());
  LYNX_TRY(LinkAddress receiver, await_address(folder, "receiver"));
  sender->connect(kSession, std::move(receiver));
  LYNX_RETURN_IF_ERROR(events.wait(0));
  LYNX_TRY(const std::string ready, await(folder / "ready"));
  if (ready != std::to_string(options.tickets())) return invalid_argument("the receiver expects another number of transfers");
  LYNX_TRY(const std::string port, await(folder / "tcp"));
  LYNX_TRY(const Socket tcp, tcp_connect(options.tcp_host.c_str(), static_cast<std::uint16_t>(std::stoi(port))));
  const Status status = measure(*sender, events, cache, options, tcp);
  link->stop();
  return status;
}

int exit_code(const char* end, const Status& status) {
  if (status.ok()) return 0;
  fmt::print(stderr, "lynx-bench-transfer ({}): {}\n", end, status.to_string());
  return 1;
}

int run_both(const Options& options) {
  std::string name = (fs::temp_directory_path() / "lynx-bench-transfer-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) return exit_code("start", resource_exhausted("no temporary directory"));
  const pid_t child = fork();  // Before either has touched UCX, whose threads and mappings do not survive it.
  if (child == 0) {
    const int code = exit_code("receiver", run_receiver(options, name));
    std::fflush(stdout);
    _exit(code);
  }
  const int sent = exit_code("sender", run_sender(options, name));
  if (sent != 0) kill(child, SIGKILL);
  int received = 0;
  waitpid(child, &received, 0);
  fs::remove_all(name);
  return sent != 0 || received != 0 ? 1 : 0;
}

}  // namespace
}  // namespace lynx::bench

int main(int argc, char** argv) {
  using namespace lynx;
  bench::Options options;
  std::string listen_folder;
  std::string connect_folder;
  bool no_tcp = false;
  CLI::App app("Goodput of the data plane between two KV caches");
  app.add_option("--transports", options.link.transports, "tcp, shm, … (UCX_TLS); all of them by default");
  app.add_option("--net-devices", options.link.net_devices, "Interfaces, separated by commas (UCX_NET_DEVICES)");
  app.add_option("--tokens", options.tokens, "Of the prompt")->check(CLI::Range(1, 1 << 20));
  app.add_option("--layers", options.shape.layers, "Of the model")->check(CLI::Range(1, kv::kMaxLayers));
  app.add_option("--kv-heads", options.shape.kv_heads, "Of the model")->check(CLI::Range(1, kv::kMaxKvHeads));
  app.add_option("--head-dim", options.shape.head_dim, "Of the model")->check(CLI::Range(2, kv::kMaxHeadDim));
  app.add_option("--modes", options.modes, "exact ones, which take turns")
      ->check(CLI::IsMember({"bf16", "lossless", "progressive-exact"}));
  app.add_option("--repeats", options.repeats, "Transfers of each mode")->check(CLI::Range(1, 1000));
  app.add_option("--tcp-host", options.tcp_host, "The receiver's IPv4 address");
  app.add_option("--window-bytes", options.window_bytes, "Unacknowledged bytes; the nodes' by default")
      ->check(CLI::Range(1 << 16, 1 << 30));
  app.add_option("--pool-bytes", options.pool_bytes, "Registered memory of each end; the nodes' by default")
      ->check(CLI::Range(1 << 20, 1 << 30));
  app.add_flag("--no-tcp", no_tcp, "No TCP stream beside the transfers");
  auto* listen = app.add_option("--listen", listen_folder, "Receive; addresses through files in this directory, empty at first");
  app.add_option("--connect", connect_folder, "Send; the same directory as the receiver's")->excludes(listen);
  CLI11_PARSE(app, argc, argv);
  options.compare_tcp = !no_tcp;
  if (!listen_folder.empty()) return bench::exit_code("receiver", bench::run_receiver(options, listen_folder));
  if (!connect_folder.empty()) return bench::exit_code("sender", bench::run_sender(options, connect_folder));
  return bench::run_both(options);
}
