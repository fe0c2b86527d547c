#include "tests/sim/transfer_fixture.h"
#include "transport/ack_message.h"
#include "transport/crc32c.h"

namespace lynx::sim {
namespace {

using namespace lynx::transport;
using server::KvReceiver;
using server::KvReceiverOptions;
using server::KvSender;
using server::KvSenderOptions;

class Traffic final : public SimObserver {
 public:
  std::uint64_t data_messages = 0, data_bytes = 0, ack_messages = 0, ack_bytes = 0;
  void on_send(NodeId, NodeId, std::span<const std::byte> header, std::span<const std::byte> payload) override {
    const bool data = decode_header(header)->kind == MessageKind::kData;
    ++(data ? data_messages : ack_messages);
    (data ? data_bytes : ack_bytes) += header.size() + payload.size();
  }
  void on_deliver(NodeId, NodeId, std::span<const std::byte>, std::span<const std::byte>) override {}
};

TEST_CASE("A transfer arrives, its acknowledgements are few, whole units need no landing memory, and then nothing moves") {
  Traffic traffic;
  TransferFixture pair(sending(), receiving(), 1, &traffic);
  auto sink = pair.send(0, 1, 500, kUnit);
  std::size_t landing = 0;
  while (pair.clock.step()) landing = std::max(landing, pair.decodes[0].receiver->stats().slots_in_use);
  CHECK(landing == 0);
  CHECK(sink->units == 1000);
  CHECK(sink->bytes == 1000 * kUnit);
  CHECK(pair.log.ended.at(1) == "delivered");
  CHECK(pair.decodes[0].log.ended.at(1) == "complete");
  CHECK(traffic.data_messages == 1000);
  CHECK(traffic.ack_messages <= 1000 / 16);
  CHECK(traffic.ack_bytes * 100 < traffic.data_bytes);
  const auto stats = pair.sender->stats();
  CHECK(stats.bytes_sent == 1000 * kUnit);
  CHECK(stats.bytes_acknowledged == 1000 * kUnit);
  CHECK(stats.chunks_resent == 0);
  CHECK(stats.foreign_messages == 0);
  CHECK(stats.slots_in_use == 0);
  CHECK(pair.sender->memory_bytes() == 400 * 1024);
  CHECK(pair.sender->link_info(0).transport == "virtual");
  CHECK(pair.sender->link_info(9).transport.empty());
}

TEST_CASE("Tickets end once, whatever the order of the commands") {
  TransferFixture pair(sending(), receiving(), 1);
  KvReceiver& receiver = *pair.decodes[0].receiver;
  auto& ended = pair.decodes[0].log.ended;
  SECTION("unknown ones") {
    pair.sender->open({5, {7, 1}, {}, kUnit, 0}, std::make_shared<PlainSource>(kUnit));  // No such session.
    pair.sender->open({0, {7, 2}, {}, kUnit + 1, 0}, std::make_shared<PlainSource>(kUnit));
    pair.sender->abort({7, 3});
    pair.sender->finish({7, 3});
    pair.sender->add_units({7, 3}, Lane::kHigh, {{}});
    receiver.retire({7, 4});
    receiver.expect(0, {{7, 5}, {}, 1, 1, {Plane::kBf16}, kUnit + 1}, std::make_shared<PlainSink>());
    receiver.expect(0, {{7, 6}, {}, 0, 1, {Plane::kBf16}, kUnit}, std::make_shared<PlainSink>());
    pair.run_to_rest();
    CHECK(pair.log.ended == std::map<std::uint64_t, std::string>{{1, "closed"}, {2, "closed"}});
    CHECK(ended.size() == 3);
    CHECK(ended.at(4) == "retired");
    CHECK(ended.at(5) == "failed: a ticket expects nothing, or units of 1001 bytes; landing memory is for 1000");
    CHECK(ended.at(6).find("expects nothing") != std::string::npos);
  }
  SECTION("a second session of the same name") {
    pair.sender->connect(0, pair.decodes[0].link->address());
    receiver.connect(0, pair.link->address());
    pair.run_to_rest();
    CHECK(pair.log.lines.back().find("FAILED_PRECONDITION") != std::string::npos);
    CHECK(pair.decodes[0].log.lines.back().find("FAILED_PRECONDITION") != std::string::npos);
  }
  SECTION("retired by the receiver: its sender stops by itself") {
    auto sink = pair.send(0, 1, 500, kUnit);
    pair.run_for(1'000);
    receiver.retire({7, 1});
    pair.run_for(300);
    const int placed = sink->units;
    CHECK(placed < 1000);
    CHECK(pair.log.ended.at(1) == "closed");
    pair.run_to_rest();
    CHECK(sink->units == placed);
    CHECK(ended.at(1) == "retired");
    CHECK(receiver.stats().chunks_stale > 0);
  }
  SECTION("aborted by the sender: the receiver keeps it until it is retired") {
    pair.send(0, 1, 500, kUnit);
    pair.run_for(1'000);
    pair.sender->abort({7, 1});
    pair.run_for(1'000);
    CHECK(pair.log.ended.at(1) == "closed");
    CHECK(ended.empty());
    receiver.retire({7, 1});
    pair.run_to_rest();
    CHECK(ended.at(1) == "retired");
  }
}

TEST_CASE("A unit that does not decode, or cannot be read, ends its ticket and no other") {
  TransferFixture pair(sending(), receiving(), 1);
  KvReceiver& receiver = *pair.decodes[0].receiver;
  auto& ended = pair.decodes[0].log.ended;
  pair.send(0, 1, 300, kUnit);
  SECTION("does not decode") {
    struct Wrong final : server::UnitSource {
      Coded read(const UnitKey&, std::span<std::byte> out) override {
        out[0] = std::byte{99};
        return {Plane::kBf16, 1};
      }
    };
    receiver.expect(0, {{7, 2}, TransferFixture::kSecret, 1, 1, {Plane::kBf16}, kUnit}, std::make_shared<PlainSink>());
    pair.sender->open({0, {7, 2}, TransferFixture::kSecret, kUnit, 0}, std::make_shared<Wrong>());
    pair.sender->add_units({7, 2}, Lane::kHigh, {{0, Part::kK, Plane::kBf16, 0}, {0, Part::kV, Plane::kBf16, 0}});
    pair.run_to_rest();
    CHECK(ended.at(2) == "failed: wrong byte");
    CHECK(pair.log.ended.at(2) == "closed");
  }
  SECTION("cannot be read") {
    struct Broken final : server::UnitSource {
      Coded read(const UnitKey&, std::span<std::byte>) override { return {Plane::kBf16, 0}; }
    };
    pair.sender->open({0, {7, 2}, TransferFixture::kSecret, kUnit, 0}, std::make_shared<Broken>());
    pair.sender->add_units({7, 2}, Lane::kHigh, {{0, Part::kK, Plane::kBf16, 0}});
    pair.run_to_rest();
    CHECK(pair.log.ended.at(2) == "closed");
  }
  CHECK(ended.at(1) == "complete");
  CHECK(pair.log.ended.at(1) == "delivered");
  CHECK(pair.sender->stats().slots_in_use == 0);
}

TEST_CASE("An acknowledgement is believed only with the ticket's secret and its CRC") {
  TransferFixture pair(sending(), receiving(), 1);
  pair.network.stall(pair.node, pair.decodes[0].node, 1'000'000);
  pair.send(0, 1, 10, kUnit);
  pair.run_for(1'000);
  AckMessage ack;
  ack.phase = TicketPhase::kComplete;
  ack.credit_bytes[0] = 1 << 30;
  const auto payload = encode_ack(ack);
  WireHeader good;
  good.kind = MessageKind::kAck;
  good.ticket = {7, 1};
  good.secret = TransferFixture::kSecret;
  good.sequence = 5;
  good.length = static_cast<std::uint32_t>(payload.size());
  good.payload_crc = crc32c(payload);
  auto inject = [&](auto change) {
    WireHeader header = good;
    change(header);
    pair.network.inject(pair.node, Lane::kHigh, encode_header(header), payload);
    pair.run_for(10);
  };
  inject([](WireHeader& h) { h.secret[9] ^= 1; });
  inject([](WireHeader& h) { h.ticket.boot = 8; });
  inject([](WireHeader& h) { h.payload_crc ^= 1; });
  inject([](WireHeader& h) { h.length += 1; });
  inject([](WireHeader& h) { h.kind = MessageKind::kData, h.unit_bytes = h.length; });
  CHECK(pair.log.ended.empty());
  CHECK(pair.sender->stats().foreign_messages == 5);
  inject([](WireHeader&) {});
  CHECK(pair.log.ended.at(1) == "delivered");
}

TEST_CASE("What is damaged, or finds no memory, is rejected and sent again long before anyone asks for it") {
  SimFaults faults;
  KvSenderOptions out = sending();
  KvReceiverOptions in = receiving();
  SECTION("damaged") {
    faults.damage_payload = 40;
  }
  SECTION("no memory") {
    faults.jitter_us = 2'000;
    faults.reorder = 500;
    out.chunk_bytes = 300;
    in.pool_bytes = 8 * 1024;
    in.high_credit_bytes = 8 * kUnit;
  }
  TransferFixture pair(out, in, 1, nullptr, faults);
  auto sink = pair.send(0, 1, 200, kUnit);
  pair.run_for(in.ask_again_us);
  const auto stats = pair.decodes[0].receiver->stats();
  CHECK(stats.chunks_damaged + stats.chunks_unplaced > 5);
  CHECK(stats.asked_again == 0);
  CHECK(pair.sender->stats().chunks_resent > 5);
  CHECK(sink->units > 100);
  pair.run_to_rest();
  CHECK(pair.log.ended.at(1) == "delivered");
}

TEST_CASE("Memory that the link gives back late is used as soon as it is there") {
  SimFaults faults;
  faults.sent_late_us = 50'000;
  KvSenderOptions out = sending();
  out.pool_bytes = 4 * 1024;
  TransferFixture pair(out, receiving(), 1, nullptr, faults);
  pair.send(0, 1, 20, kUnit);
  pair.run_to_rest();
  CHECK(pair.log.ended.at(1) == "delivered");
}

TEST_CASE("A grant that comes late does not undo a newer one") {
  KvSenderOptions out = sending();
  out.first_credit_bytes = kUnit;
  TransferFixture pair(out, receiving(), 1);
  pair.network.stall(pair.node, pair.decodes[0].node, 1'000'000);
  pair.send(0, 1, 50, kUnit);
  auto granted = [&](std::uint32_t sequence, std::uint32_t units) {
    AckMessage ack;
    ack.credit_bytes[0] = units * kUnit;
    const auto payload = encode_ack(ack);
    WireHeader header;
    header.kind = MessageKind::kAck;
    header.ticket = {7, 1};
    header.secret = TransferFixture::kSecret;
    header.sequence = sequence;
    header.length = static_cast<std::uint32_t>(payload.size());
    header.payload_crc = crc32c(payload);
    pair.network.inject(pair.node, Lane::kHigh, encode_header(header), payload);
    pair.run_for(100);
    return pair.sender->stats().bytes_sent / kUnit;
  };
  pair.run_for(100);
  CHECK(pair.sender->stats().bytes_sent == kUnit);
  CHECK(granted(10, 3) == 3);
  CHECK(granted(9, 20) == 3);
  CHECK(granted(11, 20) == 20);
}

TEST_CASE("A ticket that is over answers those who know its secret, and nothing lands") {
  Traffic traffic;
  TransferFixture pair(sending(), receiving(), 1, &traffic);
  auto sink = pair.send(0, 1, 1, kUnit);
  pair.run_to_rest();
  CHECK(sink->units == 2);
  const std::vector<std::byte> payload(kUnit);
  WireHeader late;
  late.ticket = {7, 1};
  late.secret = TransferFixture::kSecret;
  late.epoch = 3;
  late.unit_bytes = late.length = kUnit;
  late.payload_crc = crc32c(payload);
  WireHeader forged = late;
  forged.secret[15] ^= 1;
  const auto acks = traffic.ack_messages;
  const auto stats = [&] { return pair.decodes[0].receiver->stats(); };
  pair.network.inject(pair.decodes[0].node, Lane::kHigh, encode_header(forged), payload);
  pair.run_to_rest();
  CHECK(stats().chunks_foreign == 1);
  CHECK(traffic.ack_messages == acks);
  pair.network.inject(pair.decodes[0].node, Lane::kBackground, encode_header(late), payload);  // Not the header's lane.
  pair.run_to_rest();
  CHECK(stats().chunks_foreign == 2);
  pair.network.inject(pair.decodes[0].node, Lane::kHigh, encode_header(late), payload);
  pair.run_to_rest();
  CHECK(stats().chunks_stale == 1);
  CHECK(traffic.ack_messages == acks + 1);
  CHECK(sink->units == 2);
}

TEST_CASE("The landing memory of a lost session is free before its tickets are retired") {
  KvSenderOptions out = sending();
  out.chunk_bytes = 300;
  TransferFixture pair(out, receiving(), 1);
  pair.network.lose([](std::span<const std::byte> bytes) { return decode_header(bytes)->offset > 0; });
  pair.send(0, 1, 5, kUnit);
  pair.run_for(100'000);
  const auto stats = [&] { return pair.decodes[0].receiver->stats(); };
  CHECK(stats().slots_in_use == 10);
  pair.decodes[0].receiver->disconnect(0);
  pair.sender->disconnect(0);
  pair.run_to_rest();
  CHECK(stats().live_tickets == 1);
  CHECK(stats().slots_in_use == 0);
  pair.decodes[0].receiver->retire({7, 1});
  pair.run_to_rest();
  CHECK(pair.decodes[0].log.ended.at(1) == "retired");
  CHECK(stats().slots_in_use == 0);
}

TEST_CASE("A session for which there is no landing memory is refused; the next one is served when another has gone") {
  KvReceiverOptions in = receiving();
  in.pool_bytes = 5 * 1024;
  TransferFixture pair(sending(), in, 1);
  KvReceiver& receiver = *pair.decodes[0].receiver;
  const auto& lines = pair.decodes[0].log.lines;
  const auto connect = [&](server::SessionId session) {
    receiver.connect(session, pair.link->address());
    pair.run_to_rest();
    return lines.back();
  };
  CHECK(connect(1) == "connected 1");
  CHECK(connect(2) == "connected 2: RESOURCE_EXHAUSTED: landing memory for 5 units serves no more than 2 sessions");
  receiver.disconnect(0);
  CHECK(connect(3) == "connected 3");
}

TEST_CASE("Pools that do not hold two units are refused in words") {
  SimClock clock;
  SimNetwork network(&clock, 1, {}, nullptr);
  NodeId node = 0;
  Link* link = network.add_node(&node);
  SenderLog sender_log;
  ReceiverLog receiver_log;
  KvSenderOptions out = sending();
  KvReceiverOptions in = receiving();
  out.pool_bytes = 2047;
  in.pool_bytes = 2047;
  auto sender = KvSender::create(out, link, &sender_log);
  auto receiver = KvReceiver::create(in, link, &receiver_log);
  REQUIRE_FALSE(sender.ok());
  REQUIRE_FALSE(receiver.ok());
  CHECK(sender.status().message() == "send pool of 2047 bytes does not hold two units of 1000 bytes");
  CHECK(receiver.status().message() == "landing pool of 2047 bytes does not hold two units of 1000 bytes");
}

}  // namespace
}  // namespace lynx::sim
