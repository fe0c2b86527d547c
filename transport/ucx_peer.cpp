#include "transport/ucx_peer.h"

#include <fmt/format.h>

#include <utility>

namespace lynx::transport {

Status UcxPeer::open(Lane lane, ucp_worker* worker, std::string_view address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_endpoint_error;
  params.err_handler.arg = this;
  ucp_ep_h endpoint = nullptr;
  if (ucs_status_t status = ucp_ep_create(worker, &params, &endpoint); status != UCS_OK) {
    return ucx_error(Code::kUnavailable, fmt::format("no endpoint for lane {}", static_cast<int>(lane)), status);
  }
  endpoints_[static_cast<std::size_t>(lane)] = endpoint;
  return {};
}

void UcxPeer::send(Lane lane, UcxSend* send, std::span<const std::byte> payload, ucp_mem_h memory) {
  send->peer = this;
  ++sends_under_way_;
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  param.cb.send = on_send_done;
  param.user_data = send;
  if (memory != nullptr) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    param.memh = memory;
  }
  ucs_status_ptr_t request = ucp_am_send_nbx(endpoints_[static_cast<std::size_t>(lane)], kUcxMessageId, send->header.data(),
                                             send->header.size(), payload.data(), payload.size(), &param);
  if (!UCS_PTR_IS_PTR(request)) finish(send, UCS_PTR_STATUS(request));
}

void UcxPeer::start_close() {
  closing_ = true;
  for (ucp_ep_h& endpoint : endpoints_) {
    if (endpoint == nullptr) continue;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
    if (UCS_PTR_IS_PTR(request)) close_requests_.push_back(request);
    endpoint = nullptr;
  }
}

bool UcxPeer::closed() {
  std::erase_if(close_requests_, [](void* request) {
    if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
    ucp_request_free(request);
    return true;
  });
  return closing_ && close_requests_.empty() && sends_under_way_ == 0;
}

void UcxPeer::on_endpoint_error(void* self, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  auto* peer = static_cast<UcxPeer*>(self);
  if (peer->closing_ || !peer->failure_.ok()) return;
  peer->failure_ = ucx_error(Code::kUnavailable, "the connection to the peer broke", status);
  peer->observer_->on_peer_failed(peer);
}

void UcxPeer::on_send_done(void* request, ucs_status_t status, void* send) {
  ucp_request_free(request);
  auto* finished = static_cast<UcxSend*>(send);
  finished->peer->finish(finished, status);
}

void UcxPeer::finish(UcxSend* send, ucs_status_t status) {
  --sends_under_way_;
  send->peer = nullptr;
  Status result;
  if (status != UCS_OK) {
    result = !failure_.ok() ? failure_
             : closing_     ? Status(Code::kCancelled, "the peer was disconnected")
                            : ucx_error(Code::kUnavailable, "send failed", status);
  }
  observer_->on_send_finished(send, std::move(result));
}

}  // namespace lynx::transport
