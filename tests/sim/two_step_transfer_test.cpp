// Anchors on lane 0 and their Residuals on lane 1, through the real sender and receiver.

#include <map>
#include <set>
#include <utility>

#include "tests/sim/transfer_fixture.h"
#include "transport/ack_message.h"
#include "transport/crc32c.h"

namespace lynx::sim {
namespace {

using namespace lynx::transport;
using server::KvReceiverOptions;
using server::KvSenderOptions;

/// Fails when a Residual leaves before its Anchor.
class AnchorsFirst final : public SimObserver {
 public:
  void on_send(NodeId, NodeId, std::span<const std::byte> bytes, std::span<const std::byte>) override {
    const auto header = decode_header(bytes);
    if (header->kind != MessageKind::kData) return;
    UnitKey unit = header->unit;
    if (!is_residual(unit.plane)) {
      sent_.emplace(header->ticket, unit);
      return;
    }
    unit.plane = Plane::kAnchor;
    CHECK(sent_.count({header->ticket, unit}) == 1);
    ++residuals;
  }
  void on_deliver(NodeId, NodeId, std::span<const std::byte>, std::span<const std::byte>) override {}
  int residuals = 0;

 private:
  std::set<std::pair<TicketId, UnitKey>> sent_;
};

/// What receivers say.
class Rejections final : public SimObserver {
 public:
  void on_send(NodeId, NodeId, std::span<const std::byte> header, std::span<const std::byte> payload) override {
    if (decode_header(header)->kind != MessageKind::kAck) return;
    const auto ack = decode_ack(payload);
    rejected += ack->rejected.size();
    for (const SequenceRange& range : ack->acked) acknowledged += range.last - range.first + 1;
  }
  void on_deliver(NodeId, NodeId, std::span<const std::byte>, std::span<const std::byte>) override {}
  std::size_t rejected = 0;
  std::size_t acknowledged = 0;
};

struct TwoStepSource final : server::UnitSource {
  Coded read(const UnitKey& unit, std::span<std::byte> out) override {
    std::fill(out.begin(), out.begin() + kUnit, static_cast<std::byte>(unit.block));
    return {unit.plane, kUnit};
  }
};

std::vector<UnitKey> units_of(int blocks, Plane plane) {
  std::vector<UnitKey> units;
  for (std::uint32_t block = 0; block < static_cast<std::uint32_t>(blocks); ++block) {
    for (const Part part : {Part::kK, Part::kV}) units.push_back({0, part, plane, block});
  }
  return units;
}

/// All units have Residuals.
std::shared_ptr<PlainSink> send_two_steps(TransferFixture& pair, std::uint64_t request, int blocks) {
  auto sink = std::make_shared<PlainSink>();
  const TicketId id{7, request};
  TransferExpectation expectation{.ticket = id,
                                  .secret = TransferFixture::kSecret,
                                  .layers = 1,
                                  .blocks = blocks,
                                  .planes = {Plane::kAnchor},
                                  .unit_bytes_max = kUnit,
                                  .residuals = std::vector<bool>(static_cast<std::size_t>(blocks) * 2, true),
                                  .residual_planes = {Plane::kExactResidual}};
  pair.decodes[0].receiver->expect(0, expectation, sink);
  pair.sender->open({0, id, TransferFixture::kSecret, kUnit, 0}, std::make_shared<TwoStepSource>());
  pair.sender->add_units(id, Lane::kHigh, units_of(blocks, Plane::kAnchor));
  pair.sender->add_units(id, Lane::kBackground, units_of(blocks, Plane::kExactResidual));
  pair.sender->finish(id);
  return sink;
}

void check_served(TransferFixture& pair, std::uint64_t request, int anchored) {
  INFO("ticket " << request);
  CHECK(pair.log.ended[request] == "delivered");
  CHECK(pair.decodes[0].log.ended[request] == "complete");
  CHECK(pair.decodes[0].log.anchored[request] == anchored);
}

TEST_CASE("Anchors of a ticket that comes later overtake Residuals, and each ticket is told of once") {
  AnchorsFirst observer;
  TransferFixture pair(sending(), receiving(), 1, &observer);
  auto first = send_two_steps(pair, 1, 100);
  pair.run_for(2'000);
  auto second = send_two_steps(pair, 2, 20);
  while (pair.decodes[0].log.anchored[2] == 0) REQUIRE(pair.clock.step());
  CHECK(pair.log.ended.empty());  // The first one's Residuals are still on their way.
  pair.run_to_rest();
  check_served(pair, 1, 1);
  check_served(pair, 2, 1);
  CHECK(first->units == 400);
  CHECK(second->units == 80);
  CHECK(observer.residuals == 240);
  const auto stats = pair.decodes[0].receiver->stats();
  CHECK(stats.chunks_unplaced == 0);
  CHECK(stats.bytes_placed == 240 * kUnit);
  CHECK(stats.residual_bytes_placed == 240 * kUnit);
  CHECK(pair.sender->stats().chunks_resent == 0);
}

// Fails where Residuals go before their Anchors: old Residuals keep the Anchors of a new ticket back, that ticket's own Residuals
// are refused until they are old themselves, and then they keep their own Anchors back.
TEST_CASE("A backlog of old Residuals keeps new Anchors back for a while, not for good") {
  AnchorsFirst observer;
  KvSenderOptions out = sending();
  out.residual_age_us = 1'000;
  out.background_window_bytes = 2 * kUnit;
  TransferFixture pair(out, receiving(), 1, &observer);
  for (std::uint64_t request = 1; request <= 5; ++request) {
    send_two_steps(pair, request, 30);
    pair.run_for(1'500);
  }
  pair.run_for(2'000'000);
  for (std::uint64_t request = 1; request <= 5; ++request) check_served(pair, request, 1);
  CHECK(pair.decodes[0].receiver->stats().chunks_unplaced == 0);
}

// Fails where Residuals go before their Anchors: they would hold the slots that those need.
TEST_CASE("Residuals take no memory from their own Anchors") {
  AnchorsFirst observer;
  SimFaults faults;
  faults.sent_late_us = 20'000;
  KvSenderOptions out = sending();
  out.pool_bytes = 2 * 1024;
  TransferFixture pair(out, receiving(), 1, &observer, faults);
  send_two_steps(pair, 1, 20);
  send_two_steps(pair, 2, 20);
  pair.run_to_rest();
  check_served(pair, 1, 1);
  check_served(pair, 2, 1);
  CHECK(pair.decodes[0].receiver->stats().chunks_unplaced == 0);
}

TEST_CASE("A Residual that overtook its Anchor is rejected a little later, long before anyone asks for it") {
  TransferFixture pair(sending(), receiving(), 1);
  pair.network.stall(pair.node, pair.decodes[0].node, pair.clock.now_us() + 500'000);
  auto sink = send_two_steps(pair, 1, 1);
  WireHeader early;
  early.lane = Lane::kBackground;
  early.ticket = {7, 1};
  early.secret = TransferFixture::kSecret;
  early.unit = {0, Part::kK, Plane::kExactResidual, 0};
  early.unit_bytes = early.length = kUnit;
  const std::vector<std::byte> payload(kUnit);
  early.payload_crc = crc32c(payload);
  pair.network.inject(pair.decodes[0].node, Lane::kBackground, encode_header(early), payload);
  const auto stats = [&] { return pair.decodes[0].receiver->stats(); };
  pair.run_for(10'000);
  CHECK(stats().chunks_unplaced == 1);
  CHECK(stats().acks_sent == 0);
  pair.run_for(20'000);
  CHECK(stats().acks_sent == 1);
  CHECK(sink->units == 0);
  pair.run_to_rest();
  CHECK(stats().asked_again == 0);
  CHECK(sink->units == 4);
  CHECK(pair.decodes[0].log.anchored[1] == 1);
}

TEST_CASE("A lost Anchor and a lost Residual are asked for and sent again, without a new epoch") {
  TransferFixture pair(sending(), receiving(), 1);
  std::map<UnitKey, int> sent;
  pair.network.lose([&](std::span<const std::byte> bytes) {
    const auto header = decode_header(bytes);
    if (header->kind != MessageKind::kData || header->unit.part != Part::kK) return false;
    const bool anchor = header->unit.plane == Plane::kAnchor && header->unit.block == 2;
    const bool residual = header->unit.plane == Plane::kExactResidual && header->unit.block == 3;
    return (anchor || residual) && ++sent[header->unit] == 1;
  });
  auto sink = send_two_steps(pair, 1, 5);
  pair.run_to_rest();
  check_served(pair, 1, 1);
  CHECK(sink->units == 20);
  REQUIRE(sent.size() == 2);
  for (const auto& [unit, times] : sent) CHECK(times == 2);
  CHECK(pair.decodes[0].receiver->stats().asked_again > 0);
  CHECK(pair.sender->stats().epochs_restarted == 0);
  CHECK(pair.sender->stats().foreign_messages == 0);
}

TEST_CASE("What was to be rejected is forgotten when a new epoch begins: its numbers are other chunks'") {
  Rejections observer;
  TransferFixture pair(sending(), receiving(), 1, &observer);
  pair.network.stall(pair.node, pair.decodes[0].node, pair.clock.now_us() + 500'000);
  send_two_steps(pair, 1, 2);
  const std::vector<std::byte> payload(kUnit);
  WireHeader chunk;
  chunk.ticket = {7, 1};
  chunk.secret = TransferFixture::kSecret;
  chunk.unit_bytes = chunk.length = kUnit;
  chunk.payload_crc = crc32c(payload);
  const auto inject = [&](std::uint32_t epoch, Lane lane, Plane plane) {
    chunk.epoch = epoch;
    chunk.lane = lane;
    chunk.unit = {0, Part::kK, plane, 0};
    pair.network.inject(pair.decodes[0].node, lane, encode_header(chunk), payload);
    pair.run_for(10);
  };
  inject(0, Lane::kBackground, Plane::kExactResidual);
  chunk.payload_crc ^= 1;
  inject(0, Lane::kHigh, Plane::kAnchor);
  chunk.payload_crc ^= 1;
  inject(1, Lane::kHigh, Plane::kAnchor);
  pair.run_for(100'000);
  CHECK(pair.decodes[0].receiver->stats().chunks_unplaced == 1);
  CHECK(pair.decodes[0].receiver->stats().chunks_damaged == 1);
  CHECK(observer.acknowledged == 1);
  CHECK(observer.rejected == 0);
}

TEST_CASE("The loss of a node between Anchors and Residuals ends the ticket where it is") {
  KvSenderOptions out = sending();
  out.background_window_bytes = kUnit;
  TransferFixture pair(out, receiving(), 1);
  auto sink = send_two_steps(pair, 1, 50);
  while (pair.decodes[0].log.anchored[1] == 0) REQUIRE(pair.clock.step());
  pair.decodes[0].receiver->disconnect(0);
  pair.sender->disconnect(0);
  pair.run_for(1'000);
  const int placed = sink->units;
  CHECK(placed >= 100);
  CHECK(placed < 200);
  pair.run_to_rest();
  CHECK(sink->units == placed);
  CHECK(pair.log.ended.at(1) == "closed");
  CHECK(pair.decodes[0].log.ended.count(1) == 0);
  pair.decodes[0].receiver->retire({7, 1});
  pair.run_to_rest();
  CHECK(pair.decodes[0].log.ended.at(1) == "retired");
  CHECK(pair.decodes[0].log.anchored[1] == 1);
}

}  // namespace
}  // namespace lynx::sim
