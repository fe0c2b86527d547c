#include "server/pair_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "proto/lynx/v1/pair.grpc.pb.h"
#include "server/pair_stream.h"

namespace lynx::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHelloTimeout{5000};
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{1000};
// A dead link is noticed within their sum.
constexpr int kPingEveryMs = 1000;
constexpr int kPingTimeoutMs = 2000;

std::shared_ptr<grpc::Channel> open_channel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A node that is back is found at once, whatever an earlier channel had learned about its absence.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // The address is the peer's own.
  arguments.SetMaxReceiveMessageSize(static_cast<int>(WriteQueue<v1::PrefillMessage>::kMostBytes));
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

Status from_grpc(const grpc::Status& status) {
  const std::string& message = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::UNAUTHENTICATED: return {Code::kUnauthenticated, message};
    case grpc::StatusCode::FAILED_PRECONDITION: return {Code::kFailedPrecondition, message};
    case grpc::StatusCode::UNIMPLEMENTED: return {Code::kUnimplemented, message};
    case grpc::StatusCode::INVALID_ARGUMENT: return {Code::kInvalidArgument, message};
    default: return {Code::kUnavailable, message};  // Not there, or not there any more.
  }
}

/// One connection, from its start to gRPC's last word.
class Stream final : public grpc::ClientBidiReactor<v1::DecodeMessage, v1::PrefillMessage> {
 public:
  Stream(int node, ConnectionId id, const std::string& address, const std::string& secret, PairClientEvents* events)
      : node_(node), id_(id), events_(events), stub_(v1::PairControl::NewStub(open_channel(address))) {
    if (!secret.empty()) context_.AddMetadata(kPairSecretKey, secret);
    stub_->async()->Connect(&context_, this);
    v1::DecodeMessage message;
    *message.mutable_hello() = events_->hello();
    send(std::move(message));
    AddHold();  // For sends, which come from outside of reactions.
    StartRead(&incoming_);
    StartCall();
  }

  ConnectionId id() const { return id_; }

  void send(v1::DecodeMessage message) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (const v1::DecodeMessage* const next = outgoing_.push(std::move(message))) StartWrite(next);
    if (outgoing_.overflows()) end({Code::kResourceExhausted, "the prefill node does not read"});
  }

  void give_up(const Status& why) {
    const std::lock_guard lock(mutex_);
    end(why);
  }

  /// Until the connection is over; gives it up when no hello came within kHelloTimeout. The reason of the end.
  Status wait() {
    std::unique_lock lock(mutex_);
    const auto over = [this] { return done_.has_value(); };
    if (!changed_.wait_for(lock, kHelloTimeout, [&] { return over() || welcomed_ || ended_; }) && !welcomed_) {
      end({Code::kDeadlineExceeded, "no hello came from the prefill node"});
    }
    changed_.wait(lock, over);
    return why_.ok() ? *done_ : why_;
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return give_up({});
    if (welcomed_) {
      events_->on_message(node_, std::move(incoming_));
    } else if (const Status status = take_hello(); !status.ok()) {
      return give_up(status);
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }

  Status take_hello() {
    if (!incoming_.has_hello()) return invalid_argument("the first message must be a hello");
    LYNX_RETURN_IF_ERROR(events_->on_hello(node_, id_, incoming_.hello()));
    const std::lock_guard lock(mutex_);
    welcomed_ = true;
    changed_.notify_all();
    return {};
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (!ok || ended_) return;
    if (const v1::DecodeMessage* const next = outgoing_.written()) StartWrite(next);
  }

  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mutex_);
    done_ = status.ok() ? Status(Code::kUnavailable, "the prefill node ended the session") : from_grpc(status);
    changed_.notify_all();
  }

  void end(const Status& why) {
    if (std::exchange(ended_, true)) return;
    why_ = why;
    context_.TryCancel();
    RemoveHold();
    changed_.notify_all();
  }

  const int node_;
  const ConnectionId id_;
  PairClientEvents* const events_;
  std::unique_ptr<v1::PairControl::Stub> stub_;
  grpc::ClientContext context_;
  v1::PrefillMessage incoming_;
  std::mutex mutex_;
  std::condition_variable changed_;
  WriteQueue<v1::DecodeMessage> outgoing_;
  bool welcomed_ = false;
  bool ended_ = false;
  Status why_;
  std::optional<Status> done_;
};

}  // namespace

class PairClient::Impl {
 public:
  Impl(int node, std::string address, std::string secret, PairClientEvents* events)
      : node_(node), address_(std::move(address)), secret_(std::move(secret)), events_(events) {}
  ~Impl() { stop(); }

  void start() {
    thread_ = std::thread([this] { run(); });
  }

  void send(ConnectionId connection, v1::DecodeMessage message) {
    const std::lock_guard lock(mutex_);
    if (stream_ && stream_->id() == connection) stream_->send(std::move(message));
  }

  void reset(const Status& why) {
    const std::lock_guard lock(mutex_);
    if (stream_) stream_->give_up(why);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      if (stream_) stream_->give_up({Code::kCancelled, "this node is shutting down"});
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    milliseconds pause = kFirstPause;
    for (;;) {
      const auto started = std::chrono::steady_clock::now();
      std::shared_ptr<Stream> stream;
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        stream = stream_ = std::make_shared<Stream>(node_, next_connection_++, address_, secret_, events_);
      }
      const Status why = stream->wait();
      {
        const std::lock_guard lock(mutex_);
        stream_ = nullptr;
        if (stopping_) return;
      }
      events_->on_lost(node_, why);
      const bool lasted = std::chrono::steady_clock::now() - started > kLongestPause;
      pause = lasted ? kFirstPause : std::min(pause * 2, kLongestPause);
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, pause, [this] { return stopping_; })) return;
    }
  }

  const int node_;
  const std::string address_;
  const std::string secret_;
  PairClientEvents* const events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Stream> stream_;
  ConnectionId next_connection_ = 1;
  bool stopping_ = false;
  std::thread thread_;
};

PairClient::PairClient(int node, std::string address, std::string secret, PairClientEvents* events)
    : impl_(std::make_unique<Impl>(node, std::move(address), std::move(secret), events)) {}
PairClient::~PairClient() = default;

void PairClient::start() {
  impl_->start();
}
void PairClient::send(ConnectionId connection, v1::DecodeMessage message) {
  impl_->send(connection, std::move(message));
}
void PairClient::reset(const Status& why) {
  impl_->reset(why);
}
void PairClient::stop() {
  impl_->stop();
}

}  // namespace lynx::server
