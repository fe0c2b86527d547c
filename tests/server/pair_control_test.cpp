// Both ends of the control plane over a real gRPC connection: who is let in, and what a lost connection takes with it.

#include <map>
#include <mutex>
#include <vector>

#include "server/grpc_server.h"
#include "server/pair_client.h"
#include "server/pair_server.h"
#include "tests/catch.h"
#include "tests/server/eventually.h"

namespace lynx::server {
namespace {

using testing::eventually;

constexpr const char* kSecret = "a secret of the pair";

v1::DecodeMessage cancel_of(std::uint64_t number) {
  v1::DecodeMessage message;
  message.mutable_cancel()->set_number(number);
  return message;
}

/// A prefill node: lets everybody in whose layers are 30, and keeps what it hears.
class PrefillSide final : public PairServerEvents {
 public:
  Result<v1::NodeHello> on_hello(SessionId session, const v1::NodeHello& peer) override {
    if (peer.layers() != 30) return Status(Code::kFailedPrecondition, "layers differs");
    const std::lock_guard lock(mutex_);
    heard_[session];
    return v1::NodeHello();
  }
  void on_message(SessionId session, const v1::DecodeMessage& message) override {
    const std::lock_guard lock(mutex_);
    heard_[session].push_back(message.cancel().number());
  }
  void on_closed(SessionId) override {
    const std::lock_guard lock(mutex_);
    ++closed_;
  }

  std::map<SessionId, std::vector<std::uint64_t>> heard() {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  int closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  std::mutex mutex_;
  std::map<SessionId, std::vector<std::uint64_t>> heard_;
  int closed_ = 0;
};

class DecodeSide final : public PairClientEvents {
 public:
  explicit DecodeSide(std::uint32_t layers) : layers_(layers) {}

  v1::NodeHello hello() override {
    v1::NodeHello hello;
    hello.set_layers(layers_);
    return hello;
  }
  Status on_hello(int, ConnectionId connection, const v1::NodeHello&) override {
    const std::lock_guard lock(mutex_);
    connections_.push_back(connection);
    return {};
  }
  void on_message(int, v1::PrefillMessage message) override {
    const std::lock_guard lock(mutex_);
    drained_ = drained_ || message.has_draining();
  }
  void on_lost(int, const Status& why) override {
    const std::lock_guard lock(mutex_);
    losses_.push_back(why);
  }

  std::vector<ConnectionId> connections() {
    const std::lock_guard lock(mutex_);
    return connections_;
  }
  std::vector<Status> losses() {
    const std::lock_guard lock(mutex_);
    return losses_;
  }
  bool drained() {
    const std::lock_guard lock(mutex_);
    return drained_;
  }

 private:
  const std::uint32_t layers_;
  std::mutex mutex_;
  std::vector<ConnectionId> connections_;
  std::vector<Status> losses_;
  bool drained_ = false;
};

struct ControlPlane {
  PrefillSide prefill;
  PairServer pair{kSecret, &prefill};
  std::unique_ptr<GrpcServer> server = GrpcServer::start("127.0.0.1", 0, {pair.service()}).value();
  std::string address = "127.0.0.1:" + std::to_string(server->port());

  ~ControlPlane() { server->stop(); }
};

TEST_CASE("messages reach the peer in order, and none outlives its connection") {
  ControlPlane plane;
  DecodeSide decode(30);
  PairClient client(0, plane.address, kSecret, &decode);
  client.send(1, cancel_of(99));  // Before there is a connection.
  client.start();
  REQUIRE(eventually([&] { return decode.connections().size() == 1; }));
  const ConnectionId first = decode.connections().front();
  for (std::uint64_t number = 1; number <= 100; ++number) client.send(first, cancel_of(number));
  const auto heard = [&](std::size_t session) {
    const auto all = plane.prefill.heard();
    return all.size() > session ? std::next(all.begin(), static_cast<std::ptrdiff_t>(session))->second
                                : std::vector<std::uint64_t>();
  };
  REQUIRE(eventually([&] { return heard(0).size() == 100; }));
  for (std::uint64_t number = 1; number <= 100; ++number) CHECK(heard(0)[number - 1] == number);

  client.reset({Code::kUnavailable, "the test says so"});
  REQUIRE(eventually([&] { return decode.connections().size() == 2 && plane.prefill.closed() == 1; }));
  REQUIRE(decode.losses().size() == 1);
  CHECK(decode.losses().front().message() == "the test says so");
  const ConnectionId second = decode.connections().back();
  client.send(first, cancel_of(7));
  client.send(second, cancel_of(8));
  REQUIRE(eventually([&] { return !heard(1).empty(); }));
  CHECK(heard(1) == std::vector<std::uint64_t>{8});
  CHECK(heard(0).size() == 100);
}

TEST_CASE("a wrong secret, no secret and a hello that does not fit are refused with their reason") {
  ControlPlane plane;
  struct Case {
    std::uint32_t layers;
    std::string secret;
    Code code;
    std::string words;
  };
  for (const Case& c :
       {Case{30, "another secret", Code::kUnauthenticated, "--pair-secret-file"},
        Case{30, "", Code::kUnauthenticated, "--pair-secret-file"}, Case{31, kSecret, Code::kFailedPrecondition, "layers"}}) {
    DecodeSide decode(c.layers);
    PairClient client(0, plane.address, c.secret, &decode);
    client.start();
    REQUIRE(eventually([&] { return decode.losses().size() >= 2; }));  // It asks again.
    client.stop();
    CHECK(decode.connections().empty());
    CHECK(decode.losses().front().code() == c.code);
    CHECK(decode.losses().front().message().find(c.words) != std::string::npos);
  }
  CHECK(plane.prefill.heard().empty());
  CHECK(plane.prefill.closed() == 0);
}

TEST_CASE("what is said to all reaches each, and a server that goes is a loss to each") {
  auto plane = std::make_unique<ControlPlane>();
  std::vector<std::unique_ptr<DecodeSide>> sides;
  std::vector<std::unique_ptr<PairClient>> clients;
  for (int i = 0; i < 3; ++i) {
    sides.push_back(std::make_unique<DecodeSide>(30));
    clients.push_back(std::make_unique<PairClient>(i, plane->address, kSecret, sides.back().get()));
    clients.back()->start();
  }
  for (const auto& side : sides) REQUIRE(eventually([&] { return side->connections().size() == 1; }));
  v1::PrefillMessage message;
  message.mutable_draining();
  plane->pair.send_to_all(message);
  for (const auto& side : sides) CHECK(eventually([&] { return side->drained(); }));
  plane.reset();
  for (const auto& side : sides) {
    REQUIRE(eventually([&] { return !side->losses().empty(); }));
    CHECK(side->losses().front().code() == Code::kUnavailable);
  }
}

}  // namespace
}  // namespace lynx::server
