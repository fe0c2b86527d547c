#pragma once

// What the UCX link keeps of a peer and of a send. Private to ucx_*.cpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "transport/link.h"
#include "transport/ucx_handles.h"

namespace lynx::transport {

class UcxPeer;

/// One send that UCX has not finished. UCX reads the header from here.
struct UcxSend {
  UcxPeer* peer = nullptr;  ///< Null: not in use.
  std::uint64_t token = 0;
  WireBytes header{};
};

/// What UCX reports from within ucp_worker_progress(), or from within send().
class UcxPeerObserver {
 public:
  virtual ~UcxPeerObserver() = default;
  /// `send` may be used again. Maybe before send() returns.
  virtual void on_send_finished(UcxSend* send, Status status) = 0;
  /// The first endpoint of this peer failed. Its endpoints must not be closed from here.
  virtual void on_peer_failed(UcxPeer* peer) = 0;
};

/// The endpoints to one peer. Closing is not immediate: the peer must stay, and the workers be progressed, until closed().
class UcxPeer {
 public:
  UcxPeer(std::string address, UcxPeerObserver* observer) : address_(std::move(address)), observer_(observer) {}
  UcxPeer(const UcxPeer&) = delete;
  UcxPeer& operator=(const UcxPeer&) = delete;

  /// Opens the endpoint of one lane. `address` is a worker address that was unsealed. UNAVAILABLE with UCX's reason.
  Status open(Lane lane, ucp_worker* worker, std::string_view address);
  /// `memory`: the registration of the payload, or null. Ends in on_send_finished.
  void send(Lane lane, UcxSend* send, std::span<const std::byte> payload, ucp_mem_h memory);
  /// Gives the endpoints up at once; sends under way end with CANCELLED, or UNAVAILABLE if the peer had failed. Not from within
  /// UCX's callbacks. Once.
  void start_close();
  bool closed();
  /// Its worker is about to be destroyed: what UCX cancels then ends with CANCELLED.
  void abandon() { closing_ = true; }
  bool sending() const { return sends_under_way_ != 0; }

  PeerId id() const { return id_; }
  void set_id(PeerId id) { id_ = id; }
  const std::string& address() const { return address_; }  ///< All lanes', sealed.
  const Status& failure() const { return failure_; }       ///< OK while it has not failed.
  LinkInfo info() const { return endpoint_info(endpoints_[0]); }

 private:
  static void on_endpoint_error(void* self, ucp_ep_h endpoint, ucs_status_t status);
  static void on_send_done(void* request, ucs_status_t status, void* send);
  void finish(UcxSend* send, ucs_status_t status);

  std::string address_;
  PeerId id_ = 0;
  UcxPeerObserver* observer_;
  std::array<ucp_ep_h, kLanes> endpoints_{};
  std::vector<void*> close_requests_;
  std::size_t sends_under_way_ = 0;
  bool closing_ = false;
  Status failure_;
};

}  // namespace lynx::transport
