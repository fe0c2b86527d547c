#pragma once

// The two kinds of nodes of PairWorld.

#include <deque>
#include <functional>
#include <tuple>

#include "server/kv_receiver.h"
#include "server/kv_sender.h"
#include "tests/sim/pair_world.h"

namespace lynx::sim {

/// As server/engine_loop and server/remote_prompts put it together.
class PairWorld::Decode final : public server::KvReceiverEvents {
 public:
  explicit Decode(PairWorld* world);

  void submit(int prompt_tokens, int target);
  void cancel_one();
  void node_up(server::SessionId session, std::size_t index);
  void node_lost(server::SessionId session, std::size_t index);
  void first_token(std::uint64_t ticket);
  void ticket_failed(std::uint64_t ticket, const Status& why);
  bool settled() const { return live_.empty() && retained_.empty() && desk_.live() == 0 && batcher_.idle(); }
  std::string describe() const;
  void check_rest();

  transport::Link* link = nullptr;
  NodeId node = 0;
  std::unique_ptr<server::KvReceiver> receiver;

 private:
  struct Live {
    scheduler::RequestShape shape;
    kv::BlockTable table;
    int target = 1;  ///< It ends after so many tokens.
    int generated = 0;
    bool in_transfer = false;
    bool has_cache = false;
    bool drafting = false;  ///< Its Anchors may be read.
    int drafts = 0;
  };
  struct Place {
    kv::BlockId block;
    int layer;
    transport::Part part;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  class Sink;

  void on_connected(server::SessionId session, const Status& status) override;
  void on_session_lost(server::SessionId session, const Status& why) override;
  void on_complete(const transport::TicketId& ticket, const transport::TransferBytes&) override;
  void on_anchored(const transport::TicketId& ticket) override;
  void on_failed(const transport::TicketId& ticket, const Status& why) override;
  void on_retired(const transport::TicketId& ticket) override;

  void pump();
  void finish_pass(const std::vector<scheduler::PassItem>& pass);
  bool check_item(const scheduler::PassItem& item, const Live& live);
  void take_tokens(const scheduler::PassItem& item);
  void take_token(std::uint64_t id);
  void end(std::uint64_t id);
  void let_go(std::uint64_t id, Live& live);
  void carry_out();
  void carry_out(const scheduler::TicketCommand& command);
  void issue(const scheduler::TicketCommand& command);
  void arrived(std::uint64_t id);
  void released(std::uint64_t id);
  void failed(std::uint64_t id);
  void check_cache(std::uint64_t id, const Live& live);

  // Drafts (pair_drafts.cpp).
  void tell_desk(std::function<void()> event);
  void tell_engine(std::function<void()> event);
  void drain_events();
  void anchored(std::uint64_t id);
  void anchors_lost(std::uint64_t id);
  void drop_drafts(Live& live);
  void verify(const scheduler::PassItem& item);
  void check_anchors(std::uint64_t id, const Live& live);
  void check_nobody_reads(kv::BlockId block);
  std::shared_ptr<server::UnitSink> make_sink(std::uint64_t id);
  transport::TransferExpectation expectation(const Ticket& ticket) const;

  PairWorld* world_;
  scheduler::Batcher batcher_;
  kv::BlockPool pool_;
  scheduler::TicketDesk desk_;
  std::vector<scheduler::TicketCommand> commands_;
  bool carrying_out_ = false;
  bool pass_under_way_ = false;
  std::map<std::uint64_t, Live> live_;
  std::map<std::uint64_t, kv::BlockTable> retained_;
  std::map<std::uint64_t, std::uint64_t> issued_;  ///< Live tickets and their requests.
  std::map<std::uint64_t, std::uint64_t> first_tickets_;
  std::vector<server::SessionId> sessions_;  ///< [prefill node]; 0: none.
  std::map<Place, std::vector<std::byte>> memory_;
  std::map<Place, std::vector<std::byte>> anchors_;
  std::deque<std::function<void()>> desk_events_;
  std::deque<std::function<void()>> events_;  ///< For the engine, which takes them between two passes.
  std::uint64_t next_request_ = 1;
};

/// As server/engine_loop and server/prompt_server put it together.
class PairWorld::Prefill final : public server::KvSenderEvents {
 public:
  Prefill(PairWorld* world, std::size_t index);

  void take(server::SessionId session, const Ticket& ticket);
  void unwanted(std::uint64_t number);
  void session_over(server::SessionId session);
  bool settled() const { return tickets_.empty() && batcher_.idle(); }
  std::string describe() const;
  void check_rest();

  transport::Link* link = nullptr;
  NodeId node = 0;
  std::unique_ptr<server::KvSender> sender;
  bool alive = true;

 private:
  struct Job {
    server::SessionId session = 0;
    Ticket ticket;
    std::optional<kv::BlockTable> table;  ///< Once admitted.
    bool engine_done = false;
    bool unwanted = false;
    bool sending = false;
  };
  class Source;

  void on_connected(server::SessionId session, const Status& status) override;
  void on_session_lost(server::SessionId session, const Status& why) override;
  void on_delivered(const transport::TicketId& ticket) override;
  void on_closed(const transport::TicketId& ticket) override;

  void sender_done(const transport::TicketId& ticket, bool delivered);
  void pump();
  void admit(std::uint64_t number, Job& job);
  void store(Job& job, const scheduler::PassItem& item, int layer);
  void finish_pass(const std::vector<scheduler::PassItem>& pass);
  void erase_if_over(std::uint64_t number);

  PairWorld* world_;
  std::size_t index_;
  scheduler::Batcher batcher_;
  kv::BlockPool pool_;
  std::map<std::uint64_t, Job> tickets_;  ///< By number: the one decode node's.
  bool pass_under_way_ = false;
};

}  // namespace lynx::sim
