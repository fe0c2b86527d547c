#include "transport/ucx_link.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "common/log.h"
#include "transport/ucx_devices.h"
#include "transport/ucx_memory.h"
#include "transport/ucx_peer.h"
#include "transport/wake_event.h"

namespace lynx::transport {
namespace {

constexpr std::int64_t kLongestSleepUs = 50'000;  // Under load a message over shared memory once went unseen.
constexpr std::int64_t kSpinUs = 5;               // Then sleep: longer takes the core from whoever computes on it, once a message.
constexpr std::int64_t kCloseWaitUs = 1000;       // For an endpoint to be closed.
constexpr std::int64_t kSendWaitUs = 200;         // For room in a shared-memory queue, at first; a socket signals it.
constexpr std::int64_t kSendWaitMostUs = 5000;
// Closing a live endpoint can make UCX 1.22 at the other end use freed memory (a socket event that both reads and writes). So one
// that is disconnected is parked, and used again when the same peer is connected; it is closed when it breaks.
constexpr std::size_t kParkedMax = 64;
constexpr std::int64_t kDrainUs = 1'000'000;   // For sends under way when a peer is disconnected; then by force.
constexpr std::int64_t kStopWaitUs = 200'000;  // For sends under way.
constexpr int kStopRounds = 64;                // A handler that sends anew in on_sent() must not hold stop() up.
constexpr UcxVersion kSurvivesStrangers{1, 20, 0};

class UcxLink final : public Link, private UcxPeerObserver {
 public:
  static Result<std::unique_ptr<Link>> open(const UcxLinkOptions& options);
  ~UcxLink() override { stop(); }

  LinkAddress address() const override { return address_; }
  std::string library_version() const override { return version_.to_string(); }
  Result<std::span<std::byte>> allocate(std::size_t bytes) override;
  void start(LinkHandler* handler) override;
  void stop() override;
  void wake() override;
  Result<PeerId> connect(const LinkAddress& peer) override;
  void disconnect(PeerId peer) override;
  void send(PeerId peer, Lane lane, const WireBytes& header, std::span<const std::byte> payload, std::uint64_t token) override;
  LinkInfo info(PeerId peer) const override;

 private:
  struct LaneWorker {
    UcxLink* link = nullptr;
    Lane lane = Lane::kHigh;
    UcxWorker worker;
    int event_fd = -1;  // The worker's.
  };
  struct Dropped {
    std::unique_ptr<UcxPeer> peer;
    std::int64_t close_at_us;
  };
  struct Finished {
    std::uint64_t token;
    Status status;
  };

  UcxLink() = default;
  Status open_lanes();

  void run();
  std::int64_t wake_at_us(std::int64_t next_tick_us, std::int64_t now, std::int64_t idle_us) const;
  bool progress();
  bool settle();
  void tell_finished();
  void sleep_until(std::int64_t time_us);
  void shut_down();

  static ucs_status_t on_message(void* lane, const void* header, std::size_t header_bytes, void* data, std::size_t data_bytes,
                                 const ucp_am_recv_param_t* param);
  void on_send_finished(UcxSend* send, Status status) override;
  void on_peer_failed(UcxPeer* peer) override { failed_.push_back(peer->id()); }
  ucp_mem_h registration_of(std::span<const std::byte> payload) const;
  void park_dropped();
  void close(std::unique_ptr<UcxPeer> peer);
  std::unique_ptr<UcxPeer> take_parked(const std::string& address);
  void drop(std::unordered_map<PeerId, std::unique_ptr<UcxPeer>>::iterator peer);

  UcxVersion version_ = ucx_version();
  UcxContext context_;
  std::vector<std::unique_ptr<UcxRegion>> regions_;
  std::array<LaneWorker, kLanes> lanes_;
  LinkAddress address_;
  WakeEvent wake_event_;
  std::atomic<bool> wake_requested_ = false;
  std::atomic<bool> stopping_ = false;
  std::mutex stop_mutex_;
  std::thread thread_;

  // Progress thread's.
  LinkHandler* handler_ = nullptr;
  PeerId last_peer_ = 0;
  bool shut_ = false;
  bool refused_rendezvous_ = false;
  std::unordered_map<PeerId, std::unique_ptr<UcxPeer>> peers_;
  std::vector<PeerId> failed_;                    // To be told to the handler.
  std::vector<Dropped> dropped_;                  // Disconnected, with sends under way; or broken.
  std::vector<std::unique_ptr<UcxPeer>> parked_;  // Disconnected and quiet, oldest first.
  std::vector<std::unique_ptr<UcxPeer>> closing_;
  std::deque<UcxSend> sends_;
  std::vector<UcxSend*> free_sends_;
  std::vector<Finished> finished_;
  std::vector<Finished> telling_;
};

Result<std::unique_ptr<Link>> UcxLink::open(const UcxLinkOptions& options) {
  redirect_ucx_log();
  if (!options.net_devices.empty()) LYNX_RETURN_IF_ERROR(check_net_devices(options.net_devices, list_net_devices()));
  std::unique_ptr<UcxLink> link(new UcxLink);
  if (!link->wake_event_.ok()) return resource_exhausted("no file descriptor for the link's event");
  if (link->version_ < kSurvivesStrangers) {
    log_warning(
        "random bytes at this UCX's data port end the process: strangers must not reach it; UCX 1.20 or newer survives them",
        {{"ucx", link->version_.to_string()}});
  }
  LYNX_TRY(link->context_, open_context(options));
  LYNX_RETURN_IF_ERROR(link->open_lanes());
  return std::unique_ptr<Link>(std::move(link));
}

Status UcxLink::open_lanes() {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    LaneWorker& lane = lanes_[i];
    lane.link = this;
    lane.lane = static_cast<Lane>(i);
    LYNX_TRY(lane.worker, open_worker(context_.get()));
    if (ucs_status_t status = ucp_worker_get_efd(lane.worker.get(), &lane.event_fd); status != UCS_OK) {
      return ucx_error(Code::kUnavailable, "UCX gives no event descriptor", status);
    }
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kUcxMessageId;
    handler.cb = on_message;
    handler.arg = &lane;
    if (ucs_status_t status = ucp_worker_set_am_recv_handler(lane.worker.get(), &handler); status != UCS_OK) {
      return ucx_error(Code::kUnavailable, "UCX takes no message handler", status);
    }
    LYNX_TRY(const std::string address, worker_address(lane.worker.get()));
    address_.lanes.push_back(seal_address(lane.lane, version_, std::as_bytes(std::span(address))));
  }
  return {};
}

Result<std::span<std::byte>> UcxLink::allocate(std::size_t bytes) {
  if (bytes == 0) return invalid_argument("no bytes to allocate");
  LYNX_TRY(std::unique_ptr<UcxRegion> region, UcxRegion::create(context_.get(), bytes));
  return regions_.emplace_back(std::move(region))->span();
}

void UcxLink::start(LinkHandler* handler) {
  handler_ = handler;
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "lynx-link");
}

void UcxLink::stop() {
  const std::lock_guard lock(stop_mutex_);
  stopping_.store(true, std::memory_order_release);
  wake_event_.ring();
  if (thread_.joinable()) thread_.join();
}

void UcxLink::wake() {
  if (!wake_requested_.exchange(true)) wake_event_.ring();
}

Result<PeerId> UcxLink::connect(const LinkAddress& address) {
  if (shut_) return Status(Code::kUnavailable, "the link is stopping");
  if (address.lanes.size() != lanes_.size()) {
    return invalid_argument(fmt::format("an address of {} lanes, this node has {}", address.lanes.size(), lanes_.size()));
  }
  std::array<std::string_view, kLanes> bare;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    LYNX_TRY(bare[i], unseal_address(lanes_[i].lane, version_, address.lanes[i]));
  }
  const std::string key = fmt::format("{}", fmt::join(address.lanes, ""));
  std::unique_ptr<UcxPeer> peer = take_parked(key);
  Status opened;
  if (peer == nullptr) {
    peer = std::make_unique<UcxPeer>(key, static_cast<UcxPeerObserver*>(this));
    for (std::size_t i = 0; i < lanes_.size() && opened.ok(); ++i) {
      opened = peer->open(lanes_[i].lane, lanes_[i].worker.get(), bare[i]);
    }
  }
  if (!opened.ok()) {
    dropped_.push_back({std::move(peer), 0});
    return opened;
  }
  peer->set_id(++last_peer_);
  peers_.emplace(last_peer_, std::move(peer));
  return last_peer_;
}

void UcxLink::drop(std::unordered_map<PeerId, std::unique_ptr<UcxPeer>>::iterator peer) {
  dropped_.push_back({std::move(peer->second), now_us() + kDrainUs});
  peers_.erase(peer);
}

void UcxLink::disconnect(PeerId peer) {
  if (auto found = peers_.find(peer); found != peers_.end()) drop(found);
}

void UcxLink::send(PeerId peer, Lane lane, const WireBytes& header, std::span<const std::byte> payload, std::uint64_t token) {
  auto found = peers_.find(peer);
  if (found == peers_.end()) {
    finished_.push_back({token, Status(Code::kUnavailable, "the peer is gone")});
    return;
  }
  UcxSend* send = nullptr;
  if (free_sends_.empty()) {
    send = &sends_.emplace_back();
  } else {
    send = free_sends_.back();
    free_sends_.pop_back();
  }
  send->token = token;
  send->header = header;
  found->second->send(lane, send, payload, registration_of(payload));
}

ucp_mem_h UcxLink::registration_of(std::span<const std::byte> payload) const {
  for (const auto& region : regions_) {
    if (region->holds(payload)) return region->handle();
  }
  return nullptr;
}

LinkInfo UcxLink::info(PeerId peer) const {
  LinkInfo info;
  if (auto found = peers_.find(peer); found != peers_.end()) info = found->second->info();
  info.library = "UCX " + version_.to_string();
  return info;
}

void UcxLink::on_send_finished(UcxSend* send, Status status) {
  free_sends_.push_back(send);
  finished_.push_back({send->token, std::move(status)});
}

ucs_status_t UcxLink::on_message(void* lane, const void* header, std::size_t header_bytes, void* data, std::size_t data_bytes,
                                 const ucp_am_recv_param_t* param) {
  const auto* self = static_cast<LaneWorker*>(lane);
  UcxLink* link = self->link;
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    // Lynx never asks for a rendezvous: whoever does wants memory of a size that he chooses.
    if (!std::exchange(link->refused_rendezvous_, true)) log_warning("a rendezvous message was refused: not from a Lynx node");
    return UCS_ERR_REJECTED;
  }
  if (header_bytes != kWireHeaderBytes || link->shut_) return UCS_OK;
  link->handler_->on_message(self->lane, {static_cast<const std::byte*>(header), header_bytes},
                             {static_cast<const std::byte*>(data), data_bytes});
  return UCS_OK;
}

void UcxLink::run() {
  std::int64_t next_tick_us = 0;
  std::int64_t busy_us = now_us();
  while (!stopping_.load(std::memory_order_acquire)) {
    bool busy = progress();
    const std::int64_t now = now_us();
    const bool woken = wake_requested_.load(std::memory_order_relaxed) && wake_requested_.exchange(false);
    if (woken || now >= next_tick_us) {
      next_tick_us = handler_->on_tick(now);
      busy = true;
    }
    if (settle()) busy = true;
    if (busy) {
      busy_us = now;
    } else if (now - busy_us >= kSpinUs) {
      sleep_until(wake_at_us(next_tick_us, now, now - busy_us));
    }
  }
  shut_down();
}

// Some things that UCX waits for signal no event; but where a network is slow, looking for them often takes a tenth of a core.
std::int64_t UcxLink::wake_at_us(std::int64_t next_tick_us, std::int64_t now, std::int64_t idle_us) const {
  if (free_sends_.size() < sends_.size()) return std::min(next_tick_us, now + std::clamp(idle_us, kSendWaitUs, kSendWaitMostUs));
  if (!closing_.empty() || !dropped_.empty()) return std::min(next_tick_us, now + kCloseWaitUs);
  return next_tick_us;
}

bool UcxLink::progress() {
  unsigned events = 0;
  for (LaneWorker& lane : lanes_) events += ucp_worker_progress(lane.worker.get());
  return events != 0;
}

// Carries out what UCX's callbacks and the handler have put aside; true if there was anything.
bool UcxLink::settle() {
  const bool any = !failed_.empty() || !dropped_.empty() || !finished_.empty();
  for (PeerId id : std::exchange(failed_, {})) {
    auto found = peers_.find(id);
    if (found == peers_.end()) continue;
    const Status why = found->second->failure();
    drop(found);
    handler_->on_peer_lost(id, why);
  }
  park_dropped();
  std::erase_if(closing_, [](const std::unique_ptr<UcxPeer>& peer) { return peer->closed(); });
  tell_finished();
  return any;
}

void UcxLink::close(std::unique_ptr<UcxPeer> peer) {
  peer->start_close();
  closing_.push_back(std::move(peer));
}

void UcxLink::park_dropped() {
  std::erase_if(dropped_, [this](Dropped& dropped) {
    const bool broken = !dropped.peer->failure().ok();
    if (dropped.peer->sending() && !broken && now_us() < dropped.close_at_us) return false;
    if (broken || dropped.peer->sending()) {
      close(std::move(dropped.peer));
    } else {
      parked_.push_back(std::move(dropped.peer));
    }
    return true;
  });
  std::erase_if(parked_, [this](std::unique_ptr<UcxPeer>& peer) {
    if (peer->failure().ok()) return false;
    close(std::move(peer));
    return true;
  });
  if (parked_.size() > kParkedMax) {
    close(std::move(parked_.front()));
    parked_.erase(parked_.begin());
  }
}

std::unique_ptr<UcxPeer> UcxLink::take_parked(const std::string& address) {
  const auto fits = [&](const UcxPeer& peer) { return peer.address() == address && peer.failure().ok(); };
  std::unique_ptr<UcxPeer> peer;
  auto parked = std::find_if(parked_.begin(), parked_.end(), [&](const auto& candidate) { return fits(*candidate); });
  auto dropped = std::find_if(dropped_.begin(), dropped_.end(), [&](const Dropped& candidate) { return fits(*candidate.peer); });
  if (parked != parked_.end()) {
    peer = std::move(*parked);
    parked_.erase(parked);
  } else if (dropped != dropped_.end()) {
    peer = std::move(dropped->peer);
    dropped_.erase(dropped);
  }
  return peer;
}

void UcxLink::tell_finished() {
  telling_.clear();
  telling_.swap(finished_);  // on_sent() may send, which may finish at once.
  for (const Finished& finished : telling_) handler_->on_sent(finished.token, finished.status);
}

void UcxLink::sleep_until(std::int64_t time_us) {
  for (LaneWorker& lane : lanes_) {
    if (ucp_worker_arm(lane.worker.get()) != UCS_OK) return;  // Something has come in the meantime.
  }
  std::array<int, kLanes> fds{};
  for (std::size_t i = 0; i < lanes_.size(); ++i) fds[i] = lanes_[i].event_fd;
  wake_event_.wait(fds, std::min(time_us - now_us(), kLongestSleepUs));
}

void UcxLink::shut_down() {
  shut_ = true;
  const auto sending = [this] {
    return std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer.second->sending(); });
  };
  const std::int64_t deadline_us = now_us() + kStopWaitUs;
  while (sending() && now_us() < deadline_us) {
    progress();
    settle();
  }
  for (auto& peer : peers_) peer.second->abandon();
  for (Dropped& dropped : dropped_) dropped.peer->abandon();
  // With the workers go the sockets, and UCX touches no payload any more.
  for (LaneWorker& lane : lanes_) lane.worker.reset();
  for (const UcxSend& send : sends_) {
    if (send.peer != nullptr) finished_.push_back({send.token, Status(Code::kCancelled, "the link was stopped")});
  }
  for (int round = 0; round < kStopRounds && !finished_.empty(); ++round) tell_finished();
}

}  // namespace

Result<std::unique_ptr<Link>> create_ucx_link(const UcxLinkOptions& options) {
  return UcxLink::open(options);
}

}  // namespace lynx::transport
