#pragma once

// The decode node's half of a pair: prompts of its engine are computed by prefill nodes, and their KV caches land here. Decisions
// are scheduler/ticket_desk.h's; here they are carried out on one thread, between the engine, the control plane (a PairClient a
// node) and the data plane (a KvReceiver).

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "device/isa.h"
#include "kv/kv_cache.h"
#include "scheduler/ticket_desk.h"
#include "server/cache_units.h"
#include "server/event_thread.h"
#include "server/kv_receiver.h"
#include "server/pair_client.h"
#include "server/prompt_transfer.h"
#include "transport/link.h"

namespace lynx::server {

struct RemotePromptsOptions {
  std::vector<std::string> nodes;  ///< HOST:PORT of each prefill node's control plane.
  std::string secret;
  TransferMode transfer = kDefaultTransferMode;  ///< Where a request does not say.
  std::string require_transport;                 ///< Not empty: a data plane over another one is refused.
  int vocabulary = 0;
  v1::NodeHello hello;  ///< Ours; lanes, UCX version and boot are filled in.
  Isa isa = Isa::kPortable;
  double draft_noise = 0;  ///< For tests: make_cache_sink().
};

/// One prefill node as /health and /metrics show it.
struct PrefillNodeStatus {
  std::string address;
  bool up = false;      ///< A probe crossed both lanes; it gets tickets.
  std::string problem;  ///< Why it is not up.
  std::string model;
  std::string numerics;
  bool same_numerics = false;
  std::string transport;  ///< "tcp", "shm" …: what the data plane really uses.
  std::string device;
  double probe_bytes_per_s = 0;
  std::int64_t outstanding_prompt_tokens = 0;
};

struct RemotePromptsStats {
  std::uint64_t tickets = 0;
  std::uint64_t tickets_again = 0;  ///< Of requests that had one before: a node had died or refused.
  std::uint64_t tickets_failed = 0;
  std::uint64_t caches_arrived = 0;
  KvReceiverStats transfer;
};

class RemotePrompts final : public PromptTransfer, private PairClientEvents, private KvReceiverEvents {
 public:
  /// `link` (not started yet), `cache` and `anchors` are not owned and outlive it. Nothing runs before start().
  static Result<std::unique_ptr<RemotePrompts>> create(RemotePromptsOptions options, transport::Link* link, kv::KvCache* cache,
                                                       kv::AnchorCache* anchors);
  ~RemotePrompts() override;  ///< stop().

  /// `on_ready` hears, on a thread of its own, whenever the first node came up or the last one went.
  void start(std::function<void(bool)> on_ready);
  /// Ends sessions and transfers: nothing is written to the cache and nothing posted to the engine afterwards. Idempotent.
  void stop();

  // Any thread.
  std::vector<PrefillNodeStatus> nodes() const;
  RemotePromptsStats stats() const;

  // PromptTransfer
  bool brings_prompts() const override { return true; }
  void connect_engine(std::function<void(TransferEvent)> post) override { post_ = std::move(post); }
  void begin(const Generation& generation, std::span<const kv::BlockId> blocks) override;
  void layer_stored(int, std::span<const scheduler::PassItem>) override {}
  void end(scheduler::RequestId id, const Status& why) override;
  void anchors_let_go(scheduler::RequestId id) override;

 private:
  /// A request's prompt, for as many tickets as it takes.
  struct Order {
    v1::Ticket ticket;
    TransferMode mode = kDefaultTransferMode;
    PromptBlocks prompt;
    scheduler::TicketNumber number = 0;                  ///< Of the last ticket; 0: none yet.
    std::shared_ptr<const quant::PlaneProfile> profile;  ///< Of that ticket's node.
    transport::TransferBytes bytes;                      ///< Of the cache that arrived.
  };
  /// One prefill node. A session is one connection to it, control and data plane together.
  struct Node {
    SessionId session = 0;  ///< 0: not connected.
    ConnectionId connection = 0;
    std::uint64_t probe = 0;  ///< Its ticket number while it is under way; 0: none.
    std::int64_t probe_sent_us = 0;
    bool owes = false;                ///< Data is on its way, or should be.
    std::uint64_t heard = 0;          ///< Chunks.
    std::int64_t quiet_since_us = 0;  ///< Since then it owes data, and sent none.
    bool same_numerics = false;
    std::shared_ptr<const quant::PlaneProfile> profile;
  };

  RemotePrompts(RemotePromptsOptions options, transport::Link* link, kv::KvCache* cache, kv::AnchorCache* anchors);

  // PairClientEvents
  v1::NodeHello hello() override { return options_.hello; }
  Status on_hello(int node, ConnectionId connection, const v1::NodeHello& peer) override;
  void on_message(int node, v1::PrefillMessage message) override;
  void on_lost(int node, const Status& why) override;

  // KvReceiverEvents
  void on_connected(SessionId session, const Status& status) override;
  void on_session_lost(SessionId session, const Status& why) override;
  void on_complete(const transport::TicketId& ticket, const transport::TransferBytes& bytes) override;
  void on_anchored(const transport::TicketId& ticket) override;
  void on_failed(const transport::TicketId& ticket, const Status& why) override;
  void on_retired(const transport::TicketId& ticket) override;

  // On events_, as everything below.
  void carry_out();
  void tell_readiness();
  void carry_out(const scheduler::TicketCommand& command);
  void issue(const scheduler::TicketCommand& command);
  void tell(const scheduler::TicketCommand& command, bool release);
  void send(int node, v1::DecodeMessage message);
  void tell_anchored(scheduler::RequestNumber request);
  void notify(scheduler::RequestNumber request, TransferEvent::Kind kind, Status why = {});

  void node_greeted(int index, ConnectionId connection, const v1::NodeHello& peer);
  void node_connected(SessionId session, const Status& status);
  void send_probe(int index);
  std::int64_t watch_data(std::int64_t now_us);
  void probe_done(int index, const Status& status);
  void node_lost(int index, const Status& why);
  void take_message(int index, const v1::PrefillMessage& message);
  void take_first_tokens(int index, const v1::FirstTokens& message);
  void transfer_anchored(std::uint64_t number);
  void transfer_complete(std::uint64_t number, const transport::TransferBytes& bytes);
  void transfer_failed(std::uint64_t number, const Status& why);
  std::optional<int> by_session(SessionId session) const;  ///< The node's index.
  std::optional<int> by_probe(std::uint64_t number) const;
  void reset(int index, const Status& why);
  void show(int index, const std::function<void(PrefillNodeStatus&)>& change);

  RemotePromptsOptions options_;
  transport::Link* const link_;
  kv::KvCache* const cache_;
  kv::AnchorCache* const anchors_;
  std::function<void(TransferEvent)> post_;
  std::function<void(bool)> on_ready_;
  bool ready_ = false;
  std::unique_ptr<KvReceiver> receiver_;
  std::vector<std::unique_ptr<PairClient>> clients_;
  bool stopped_ = false;

  scheduler::TicketDesk desk_;
  std::vector<scheduler::TicketCommand> commands_;
  std::map<scheduler::RequestNumber, Order> orders_;
  std::vector<Node> nodes_;
  /// What the log says of a node already: one that cannot be used is tried every second.
  struct Logged {
    std::uint64_t boot = 0;  ///< Of the life that was greeted.
    std::string problem;     ///< Since it was up last.
  };
  std::vector<Logged> logged_;
  SessionId next_session_ = 1;
  std::uint64_t next_probe_;

  mutable std::mutex shown_mutex_;  // Of what other threads look at.
  std::vector<PrefillNodeStatus> shown_;
  RemotePromptsStats stats_;

  EventThread events_;  // Last: its tasks use all of the above.
};

}  // namespace lynx::server
