#include "server/grpc_server.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <random>
#include <string>
#include <vector>

#include "tests/server/grpc_front_fixture.h"

namespace lynx::server {
namespace {

using testing::GrpcFront;

/// grpc.health.v1 spoken in bytes, for its schema is not ours: field 1 of the request is the service's name, field 1 of the answer
/// its state (1 is SERVING, 2 NOT_SERVING). 0: the call failed.
int health_of(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  std::string bytes;
  if (!service.empty()) bytes = std::string("\x0A") + static_cast<char>(service.size()) + service;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  std::promise<grpc::Status> done;
  grpc::GenericStub stub(channel);
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                 [&](grpc::Status status) { done.set_value(std::move(status)); });
  if (!done.get_future().get().ok()) return 0;
  grpc::Slice answer;
  if (!response.DumpToSingleSlice(&answer).ok() || answer.size() != 2 || answer.begin()[0] != 0x08) return 0;
  return answer.begin()[1];
}

int connect_to(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  return socket;
}

}  // namespace

TEST_CASE("health follows set_serving, by name") {
  GrpcFront front({.loaded = false});
  for (const char* name : {"", "lynx.v1.Inference"}) CHECK(health_of(front.channel, name) == 2);
  front.server->set_serving(true);
  for (const char* name : {"", "lynx.v1.Inference"}) CHECK(health_of(front.channel, name) == 1);
  CHECK(health_of(front.channel, "no.such.Service") == 0);
  front.server->set_serving(false);
  for (const char* name : {"", "lynx.v1.Inference"}) CHECK(health_of(front.channel, name) == 2);
}

TEST_CASE("a port is not shared, and a refusal names it") {
  GrpcFront front;
  ServerMetrics metrics;
  InferenceService other(ApiKeys(), metrics);
  const auto second = GrpcServer::start("127.0.0.1", front.server->port(), {other.service()});
  REQUIRE_FALSE(second.ok());
  CHECK(second.status().code() == Code::kUnavailable);
  CHECK(second.status().message().find(std::to_string(front.server->port())) != std::string::npos);
}

TEST_CASE("strangers that speak no gRPC do not disturb those who do") {
  constexpr int kStrangers = 200;
  constexpr unsigned kSeed = 7;
  GrpcFront front;
  std::mt19937 random(kSeed);
  for (int i = 0; i < kStrangers; ++i) {
    std::string bytes = i % 3 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
    for (std::size_t size = random() % 300; size > 0; --size) bytes += static_cast<char>(random());
    const int socket = connect_to(front.server->port());
    [[maybe_unused]] const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::close(socket);
  }
  CHECK(front.generate(testing::text_request("hi")).texts == std::vector<std::string>{"hi"});
  CHECK(front.idle());
}

}  // namespace lynx::server
