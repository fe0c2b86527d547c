#include "server/pair_server.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/secrets.h"
#include "proto/lynx/v1/pair.grpc.pb.h"
#include "server/grpc_call.h"
#include "server/pair_hello.h"
#include "server/pair_stream.h"

namespace lynx::server {
namespace {

class Session;

/// A node that is refused asks again every second: the same words about the same host are logged once a minute.
class RefusalLog {
 public:
  void add(const std::string& peer, const std::string& reason) {
    const auto now = std::chrono::steady_clock::now();
    {
      const std::lock_guard lock(mutex_);
      if (told_.size() >= kMost) told_.clear();
      const auto [it, is_new] = told_.try_emplace({peer.substr(0, peer.rfind(':')), reason}, now);  // Without its port.
      if (!is_new && now - it->second < kEvery) return;
      it->second = now;
    }
    log_warning("decode node refused", {{"peer", peer}, {"reason", reason}});
  }

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr std::chrono::minutes kEvery{1};
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::chrono::steady_clock::time_point> told_;
};

/// The live sessions. A session is in it from its hello to its end, so that whoever finds one here may use it under the lock.
class Sessions {
 public:
  SessionId add(Session* session) {
    const std::lock_guard lock(mutex_);
    live_.emplace(next_, session);
    return next_++;
  }
  void remove(SessionId id) {
    const std::lock_guard lock(mutex_);
    live_.erase(id);
  }
  template <class Use>
  void with(SessionId id, Use&& use) {
    const std::lock_guard lock(mutex_);
    const auto it = live_.find(id);
    if (it != live_.end()) use(*it->second);
  }
  template <class Use>
  void with_all(Use&& use) {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, session] : live_) use(*session);
  }

 private:
  std::mutex mutex_;
  std::map<SessionId, Session*> live_;
  SessionId next_ = 1;
};

/// One stream. Deletes itself when gRPC is done with it.
class Session final : public grpc::ServerBidiReactor<v1::DecodeMessage, v1::PrefillMessage> {
 public:
  Session(Sessions* sessions, PairServerEvents* events, RefusalLog* refusals, std::string peer)
      : sessions_(sessions), events_(events), refusals_(refusals), peer_(std::move(peer)) {
    id_ = sessions_->add(this);
    StartRead(&incoming_);
  }

  void send(v1::PrefillMessage message) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    if (const v1::PrefillMessage* const next = outgoing_.push(std::move(message))) StartWrite(next);
    if (outgoing_.overflows()) finish({Code::kResourceExhausted, "the peer does not read"});
  }

  void close(const Status& why) {
    const std::lock_guard lock(mutex_);
    finish(why);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return close({});
    if (accepted_) {
      events_->on_message(id_, incoming_);
    } else if (!take_hello()) {
      return;
    }
    const std::lock_guard lock(mutex_);
    if (!finished_) StartRead(&incoming_);
  }

  bool take_hello() {
    Result<v1::NodeHello> answer =
        incoming_.has_hello() ? events_->on_hello(id_, incoming_.hello()) : invalid_argument("the first message must be a hello");
    if (!answer.ok()) {
      refusals_->add(peer_, answer.status().message());
      close(answer.status());
      return false;
    }
    accepted_ = true;
    v1::PrefillMessage message;
    *message.mutable_hello() = std::move(answer).value();
    send(std::move(message));
    return true;
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (finished_ || !ok) return;
    if (const v1::PrefillMessage* const next = outgoing_.written()) StartWrite(next);
  }

  void OnCancel() override { close({Code::kCancelled, "the peer is gone"}); }

  void OnDone() override {
    sessions_->remove(id_);
    if (accepted_) events_->on_closed(id_);
    delete this;
  }

  void finish(const Status& why) {
    if (std::exchange(finished_, true)) return;
    Finish(to_grpc(why));
  }

  Sessions* const sessions_;
  PairServerEvents* const events_;
  RefusalLog* const refusals_;
  const std::string peer_;
  SessionId id_ = 0;
  v1::DecodeMessage incoming_;
  bool accepted_ = false;  // Reads' threads only, and OnDone.
  std::mutex mutex_;
  WriteQueue<v1::PrefillMessage> outgoing_;
  bool finished_ = false;
};

/// A stream that ends before it began.
class Refusal final : public grpc::ServerBidiReactor<v1::DecodeMessage, v1::PrefillMessage> {
 public:
  explicit Refusal(const Status& why) { Finish(to_grpc(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

class PairServer::Impl final : public v1::PairControl::CallbackService {
 public:
  Impl(std::string secret, PairServerEvents* events) : secret_(std::move(secret)), events_(events) {}

  grpc::ServerBidiReactor<v1::DecodeMessage, v1::PrefillMessage>* Connect(grpc::CallbackServerContext* context) override {
    const auto shown = context->client_metadata().find(kPairSecretKey);
    const std::string secret =
        shown == context->client_metadata().end() ? std::string() : std::string(shown->second.data(), shown->second.size());
    if (!secret_.empty() && !equal_secrets(secret, secret_)) {
      refusals_.add(context->peer(), "wrong pair secret");
      return new Refusal({Code::kUnauthenticated, "the pair secrets differ (--pair-secret-file)"});
    }
    return new Session(&sessions, events_, &refusals_, context->peer());
  }

  Sessions sessions;

 private:
  const std::string secret_;
  PairServerEvents* const events_;
  RefusalLog refusals_;
};

PairServer::PairServer(std::string secret, PairServerEvents* events) : impl_(std::make_unique<Impl>(std::move(secret), events)) {}
PairServer::~PairServer() = default;

GrpcService PairServer::service() {
  return {"lynx.v1.PairControl", impl_.get()};
}

void PairServer::send(SessionId session, v1::PrefillMessage message) {
  impl_->sessions.with(session, [&](Session& s) { s.send(std::move(message)); });
}

void PairServer::send_to_all(const v1::PrefillMessage& message) {
  impl_->sessions.with_all([&](Session& s) { s.send(message); });
}

void PairServer::close(SessionId session, const Status& why) {
  impl_->sessions.with(session, [&](Session& s) { s.close(why); });
}

}  // namespace lynx::server
