#include "server/kv_sender.h"

#include <utility>

#include "server/kv_sender_impl.h"

namespace lynx::server {

using transport::Lane;
using transport::LinkAddress;
using transport::LinkInfo;
using transport::PeerId;
using transport::TicketId;
using transport::UnitKey;

Result<std::unique_ptr<KvSender>> KvSender::create(const KvSenderOptions& options, transport::Link* link, KvSenderEvents* events) {
  if (options.chunk_bytes == 0) return invalid_argument("chunk_bytes must be at least 1");
  LYNX_TRY(std::span<std::byte> memory, UnitSlots::allocate(link, "send", options.pool_bytes, options.unit_bytes_max));
  return std::unique_ptr<KvSender>(new KvSender(std::make_unique<Impl>(options, link, events, memory)));
}

KvSender::KvSender(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KvSender::~KvSender() = default;

void KvSender::connect(SessionId session, LinkAddress address) {
  impl_->mailbox().post([impl = impl_.get(), session, address = std::move(address)] { impl->connect(session, address); });
}

void KvSender::disconnect(SessionId session) {
  impl_->mailbox().post([impl = impl_.get(), session] { impl->disconnect(session); });
}

void KvSender::open(const OutgoingTicket& ticket, std::shared_ptr<UnitSource> source) {
  impl_->mailbox().post([impl = impl_.get(), ticket, source = std::move(source)] { impl->open(ticket, source); });
}

void KvSender::add_units(const TicketId& ticket, Lane lane, std::vector<UnitKey> units) {
  impl_->mailbox().post([impl = impl_.get(), ticket, lane, units = std::move(units)] { impl->add_units(ticket, lane, units); });
}

void KvSender::finish(const TicketId& ticket) {
  impl_->mailbox().post([impl = impl_.get(), ticket] { impl->finish(ticket); });
}

void KvSender::abort(const TicketId& ticket) {
  impl_->mailbox().post([impl = impl_.get(), ticket] { impl->abort(ticket); });
}

KvSenderStats KvSender::stats() const {
  return impl_->stats();
}

LinkInfo KvSender::link_info(SessionId session) const {
  return impl_->link_info(session);
}

std::size_t KvSender::memory_bytes() const {
  return impl_->memory_bytes();
}

void KvSender::on_message(Lane, std::span<const std::byte> header, std::span<const std::byte> payload) {
  impl_->on_message(header, payload);
}

void KvSender::on_sent(std::uint64_t token, const Status&) {
  impl_->on_sent(token);
}

void KvSender::on_peer_lost(PeerId peer, const Status& why) {
  impl_->on_peer_lost(peer, why);
}

std::int64_t KvSender::on_tick(std::int64_t now_us) {
  return impl_->on_tick(now_us);
}

}  // namespace lynx::server
