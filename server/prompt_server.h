#pragma once

// The prefill node's half of a pair: tickets of decode nodes become requests of its engine, which choose first tokens and leave a
// KV cache behind; the cache goes out block by block, layer by layer, while later layers are still computed. A prompt's blocks are
// kept until its cache was delivered and released, or nobody wants it any more.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "common/status.h"
#include "device/isa.h"
#include "kv/kv_cache.h"
#include "quant/plane_profile.h"
#include "server/cache_units.h"
#include "server/engine.h"
#include "server/kv_sender.h"
#include "server/pair_server.h"
#include "server/prompt_transfer.h"
#include "transport/link.h"

namespace lynx::server {

struct PromptServerOptions {
  std::string secret;             ///< Of the pair; empty: everybody may connect.
  std::string require_transport;  ///< Not empty: a data plane over another one is refused.
  v1::NodeHello hello;            ///< Ours; lanes, UCX version and boot are filled in.
  Isa isa = Isa::kPortable;
  quant::PlaneProfile profile;         ///< Of the model; told in the hello.
  std::int64_t residual_delay_us = 0;  ///< For tests: KvSenderOptions.
};

struct PromptServerStats {
  int sessions = 0;
  int tickets = 0;  ///< Live: computing, sending, or kept until released.
  std::uint64_t tickets_total = 0;
  std::uint64_t tickets_failed = 0;
  std::uint64_t caches_delivered = 0;
  KvSenderStats transfer;
};

class PromptServer final : public PromptTransfer, private PairServerEvents, private KvSenderEvents {
 public:
  /// `link` (not started yet) and `cache` are not owned and outlive it.
  static Result<std::unique_ptr<PromptServer>> create(PromptServerOptions options, transport::Link* link, kv::KvCache* cache);
  ~PromptServer() override;

  GrpcService service() { return pair_.service(); }

  /// From now on tickets are taken. `engine` is the one that has this transfer; not owned.
  void start(Engine* engine);
  void begin_drain();
  /// Once the gRPC server has stopped: ends the data plane. Nothing is posted to the engine afterwards. Idempotent.
  void stop();

  PromptServerStats stats() const;  ///< Any thread.

  // PromptTransfer, on the engine's thread
  bool brings_prompts() const override { return false; }
  void connect_engine(std::function<void(TransferEvent)> post) override { post_ = std::move(post); }
  void begin(const Generation& generation, std::span<const kv::BlockId> blocks) override;
  void layer_stored(int layer, std::span<const scheduler::PassItem> pass) override;
  void end(scheduler::RequestId id, const Status& why) override;

 private:
  struct Key {
    SessionId session;
    std::uint64_t number;
    friend auto operator<=>(const Key&, const Key&) = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 is wrong here.
  };
  /// A ticket until nothing of it is left. It goes when the engine is done, nobody wants the cache and the sender has let go of it.
  struct Ticket {
    std::string request_id;    ///< Of the engine's request.
    transport::TicketId wire;  ///< As the data plane knows it.
    transport::TicketSecret secret{};
    TransferMode mode = kDefaultTransferMode;
    bool cache = false;
    scheduler::RequestId engine_id = 0;  ///< 0: not admitted yet.
    bool engine_done = false;
    bool unwanted = false;  ///< Released, cancelled, or its session is gone.
    bool sending = false;   ///< The sender has it.
  };
  using Tickets = std::map<Key, Ticket>;
  class FirstTokenSink;

  PromptServer(PromptServerOptions options, transport::Link* link, kv::KvCache* cache);

  // PairServerEvents
  Result<v1::NodeHello> on_hello(SessionId session, const v1::NodeHello& peer) override;
  void on_message(SessionId session, const v1::DecodeMessage& message) override;
  void on_closed(SessionId session) override;

  // KvSenderEvents
  void on_connected(SessionId session, const Status& status) override;
  void on_session_lost(SessionId session, const Status& why) override;
  void on_delivered(const transport::TicketId& ticket) override;
  void on_closed(const transport::TicketId& ticket) override;

  void take_ticket(SessionId session, const v1::Ticket& message);
  void take_probe(SessionId session, const v1::Probe& message);
  void take_update(const Key& key, const GenerationUpdate& update);
  void refuse(const Key& key, const Status& why);
  void released(const Key& key);
  void unwanted(const Key& key);
  void sender_done(const transport::TicketId& ticket, bool delivered);

  // With mutex_ held.
  Ticket* add(const Key& key, std::string request_id, const std::string& secret);
  void make_unwanted(Tickets::iterator it);
  void erase_if_over(Tickets::iterator it);

  PromptServerOptions options_;
  transport::Link* const link_;
  kv::KvCache* const cache_;
  PairServer pair_;
  std::unique_ptr<KvSender> sender_;
  std::function<void(TransferEvent)> post_;

  mutable std::mutex mutex_;
  Engine* engine_ = nullptr;
  bool draining_ = false;
  std::map<SessionId, std::uint64_t> sessions_;  ///< Each decode node's boot nonce.
  Tickets tickets_;
  std::map<std::string, Key> by_request_id_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Key> by_wire_;  ///< By boot and request of TicketId.
  PromptServerStats stats_;

  /// What goes out of a prompt under computation. The engine thread's.
  struct Outgoing {
    transport::TicketId ticket;
    int prompt_tokens;
    PromptCoding coding;
  };
  std::map<scheduler::RequestId, Outgoing> outgoing_;
  std::map<scheduler::RequestId, Key> engine_ids_;  ///< Same.
};

}  // namespace lynx::server
