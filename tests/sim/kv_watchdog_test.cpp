// Tickets that get no answer, or none that helps.

#include "tests/sim/transfer_fixture.h"
#include "transport/ack_message.h"
#include "transport/crc32c.h"

namespace lynx::sim {
namespace {

using namespace lynx::transport;

TEST_CASE("A silent peer is noticed by the watchdog, given up after some epochs, and slows nobody else") {
  TransferFixture world(sending(), receiving(), 3);
  for (std::size_t dead : {0U, 1U}) {
    world.network.stall(world.node, world.decodes[dead].node, 1'000'000'000);
    for (std::uint64_t request = 0; request < 10; ++request) world.send(dead, dead * 100 + request, 200, kUnit);
  }
  world.run_for(100'000);
  for (std::uint64_t request = 200; request < 210; ++request) {
    world.send(2, request, 50, kUnit, request % 2 == 0 ? Lane::kHigh : Lane::kBackground);
  }
  world.run_for(2'000'000);
  for (std::uint64_t request = 200; request < 210; ++request) CHECK(world.log.ended[request] == "delivered");
  CHECK(world.log.ended.size() == 10);
  world.run_for(2'000'000);
  auto said = [&](const std::string& line) { return std::count(world.log.lines.begin(), world.log.lines.end(), line); };
  CHECK(said("silence 0") == 1);
  CHECK(said("silence 2") == 0);
  CHECK(said("lost 0") == 0);
  world.run_for(10'000'000);
  CHECK(said("lost 0") == 1);
  CHECK(said("lost 1") == 1);
  CHECK(world.log.ended.size() == 30);
  CHECK(world.log.ended[105] == "closed");
  CHECK(world.sender->stats().live_tickets == 0);
}

TEST_CASE("A ticket that a peer knows nothing of is closed, though the peer answers for others") {
  TransferFixture pair(sending(), receiving(), 1);
  pair.sender->open({0, {7, 9}, {}, kUnit, 0}, std::make_shared<PlainSource>(kUnit));
  pair.sender->add_units({7, 9}, Lane::kHigh, {{0, Part::kK, Plane::kBf16, 0}});
  for (std::uint64_t request = 10; request < 17; ++request) {
    CHECK(pair.log.ended.count(9) == 0);
    pair.send(0, request, 1, kUnit);
    pair.run_for(2'000'000);
    CHECK(pair.log.ended.at(request) == "delivered");
  }
  CHECK(pair.log.ended.at(9) == "closed");
  CHECK(pair.decodes[0].receiver->stats().chunks_foreign == 4);
  CHECK(pair.log.lines.back() == "connected 0");
}

TEST_CASE("Epochs in which a peer was silent do not count against a ticket when the peer is back") {
  TransferFixture pair(sending(), receiving(), 1);
  pair.network.lose([&](std::span<const std::byte> bytes) {
    return pair.clock.now_us() < (decode_header(bytes)->ticket.request == 2 ? 12'000'000 : 8'900'000);
  });
  pair.send(0, 1, 1, kUnit);
  pair.run_for(100'000);
  pair.send(0, 2, 1, kUnit);  // Resent at 9.1 s too, and not answered before 12 s.
  pair.run_for(11'000'000);
  CHECK(pair.log.ended.at(1) == "delivered");
  pair.send(0, 3, 1, kUnit);
  pair.run_to_rest();
  CHECK(pair.log.ended.at(3) == "delivered");
  CHECK(pair.log.ended.at(2) == "delivered");
  CHECK(pair.log.lines.back() == "silence 0");
}

/// A receiver that rejects one of a ticket's two chunks, again and again; the other one is lost.
class Refusal {
 public:
  explicit Refusal(TransferFixture* pair) : pair_(pair) {
    pair->network.lose([this](std::span<const std::byte> bytes) {
      const auto header = decode_header(bytes);
      if (over || header->kind != MessageKind::kData) return false;
      if (header->unit.part == Part::kK) refused_ = *header;
      return true;
    });
  }

  void reject(std::uint32_t number) {
    AckMessage ack;
    ack.credit_bytes[0] = 8 * kUnit;
    ack.rejected = {refused_.sequence};
    const auto payload = encode_ack(ack);
    WireHeader header;
    header.kind = MessageKind::kAck;
    header.ticket = refused_.ticket;
    header.secret = refused_.secret;
    header.epoch = refused_.epoch;
    header.sequence = number;
    header.length = static_cast<std::uint32_t>(payload.size());
    header.payload_crc = crc32c(payload);
    pair_->network.inject(pair_->node, Lane::kHigh, encode_header(header), payload);
  }

  bool over = false;

 private:
  TransferFixture* pair_;
  WireHeader refused_;
};

TEST_CASE("A ticket for which there is no room waits while its receiver says so, but not for ever") {
  TransferFixture pair(sending(), receiving(), 1);
  Refusal refusal(&pair);
  pair.send(0, 1, 1, kUnit);
  for (std::uint32_t second = 0; second < 55; ++second) {
    pair.run_for(1'000'000);
    refusal.reject(second);
  }
  CHECK(pair.log.ended.empty());
  SECTION("there is room at last") {
    refusal.over = true;
    pair.run_to_rest();
    CHECK(pair.log.ended.at(1) == "delivered");
  }
  SECTION("nothing ever gets through") {
    for (std::uint32_t second = 55; second < 65; ++second) {
      pair.run_for(1'000'000);
      refusal.reject(second);
    }
    pair.run_for(1'000'000);
    CHECK(pair.log.ended.at(1) == "closed");
  }
}

}  // namespace
}  // namespace lynx::sim
