#include "server/kv_receiver.h"

#include <utility>

#include "server/kv_receiver_impl.h"

namespace lynx::server {

using transport::Lane;
using transport::LinkAddress;
using transport::LinkInfo;
using transport::PeerId;
using transport::TicketId;
using transport::TransferExpectation;

Result<std::unique_ptr<KvReceiver>> KvReceiver::create(const KvReceiverOptions& options, transport::Link* link,
                                                       KvReceiverEvents* events) {
  LYNX_TRY(std::span<std::byte> memory, UnitSlots::allocate(link, "landing", options.pool_bytes, options.unit_bytes_max));
  return std::unique_ptr<KvReceiver>(new KvReceiver(std::make_unique<Impl>(options, link, events, memory)));
}

KvReceiver::KvReceiver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KvReceiver::~KvReceiver() = default;

void KvReceiver::connect(SessionId session, LinkAddress address) {
  impl_->mailbox().post([impl = impl_.get(), session, address = std::move(address)] { impl->connect(session, address); });
}

void KvReceiver::disconnect(SessionId session) {
  impl_->mailbox().post([impl = impl_.get(), session] { impl->disconnect(session); });
}

void KvReceiver::expect(SessionId session, TransferExpectation expectation, std::shared_ptr<UnitSink> sink) {
  impl_->mailbox().post([impl = impl_.get(), session, expectation = std::move(expectation), sink = std::move(sink)] {
    impl->expect(session, expectation, sink);
  });
}

void KvReceiver::retire(const TicketId& ticket) {
  impl_->mailbox().post([impl = impl_.get(), ticket] { impl->retire(ticket); });
}

KvReceiverStats KvReceiver::stats() const {
  return impl_->stats();
}

std::uint64_t KvReceiver::chunks_heard(SessionId session) const {
  return impl_->chunks_heard(session);
}

LinkInfo KvReceiver::link_info(SessionId session) const {
  return impl_->link_info(session);
}

std::size_t KvReceiver::memory_bytes() const {
  return impl_->memory_bytes();
}

void KvReceiver::on_message(Lane lane, std::span<const std::byte> header, std::span<const std::byte> payload) {
  impl_->on_message(lane, header, payload);
}

void KvReceiver::on_sent(std::uint64_t token, const Status&) {
  impl_->on_sent(token);
}

void KvReceiver::on_peer_lost(PeerId peer, const Status& why) {
  impl_->on_peer_lost(peer, why);
}

std::int64_t KvReceiver::on_tick(std::int64_t now_us) {
  return impl_->on_tick(now_us);
}

}  // namespace lynx::server
