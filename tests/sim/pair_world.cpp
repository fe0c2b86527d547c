#include "tests/sim/pair_world.h"

#include "tests/catch.h"
#include "tests/sim/pair_nodes.h"

namespace lynx::sim {

using server::SessionId;

namespace {

constexpr std::int64_t kEndUs = 600'000'000;

}  // namespace

PairWorld::PairWorld(std::uint32_t seed, bool two_steps, PairCoverage* coverage)
    : two_steps_(two_steps),
      draw_(seed),
      plan_(draw_plan(draw_)),
      coverage_(coverage),
      network_(&clock_, seed + 1, plan_.faults, nullptr),
      to_arrive_(static_cast<int>(draw_.between(2, 12))) {
  plan_.deaths = draw_.percent(60) ? 0 : static_cast<int>(draw_.between(1, 3));
  land_all_sessions(&plan_);
  harmless_ = plan_.deaths == 0 && !plan_.goes_down;
  // A late cancellation is worth more than many early ones.
  plan_.abort_percent = draw_.percent(50) ? 0 : 40;
  decode_ = std::make_unique<Decode>(this);
  prefills_.resize(static_cast<std::size_t>(plan_.prefill_nodes));
  for (std::size_t i = 0; i < prefills_.size(); ++i) start_prefill(i, 0);
}

PairWorld::~PairWorld() = default;

transport::UnitKey PairWorld::first_unit(int prompt_tokens, int layer, int block, transport::Part part) const {
  const bool whole = prompt_tokens > kSimBlockTokens && (block + 1) * kSimBlockTokens <= prompt_tokens;
  const bool in_steps = two_steps_ && whole && (layer + block + static_cast<int>(part)) % 3 != 0;
  const transport::Plane plane = in_steps ? transport::Plane::kAnchor : transport::Plane::kBf16;
  return {static_cast<std::uint16_t>(layer), part, plane, static_cast<std::uint32_t>(block)};
}

std::string PairWorld::run() {
  for (int i = to_arrive_; i > 0; --i) clock_.at(draw_.between(0, plan_.arrivals_us), [this] { arrive(); });
  for (int death = 0; death < plan_.deaths; ++death) {
    const auto index = static_cast<std::size_t>(draw_.below(plan_.prefill_nodes));
    clock_.at(draw_.between(0, plan_.arrivals_us + 300'000), [this, index] { kill_prefill(index); });
  }
  for (int stall = 0; stall < plan_.stalls + (plan_.goes_down ? 1 : 0); ++stall) {
    const std::int64_t lasts_us = stall == plan_.stalls ? 60'000'000 : draw_.between(1'000, 4'000'000);
    clock_.at(draw_.between(0, plan_.arrivals_us + 300'000), [this, lasts_us] {
      if (prefills_.front()) network_.stall(prefills_.front()->node, decode_->node, clock_.now_us() + lasts_us);
    });
  }
  while (failure_.empty() && !settled() && clock_.now_us() < kEndUs && clock_.step()) {
  }
  if (failure_.empty() && !settled()) fail(left_over());
  // What was sent last is still let go of.
  for (const std::int64_t until_us = clock_.now_us() + 120'000'000;
       failure_.empty() && clock_.now_us() < until_us && clock_.step();) {
  }
  if (!failure_.empty()) return failure_;
  decode_->check_rest();
  for (const auto& prefill : prefills_) {
    if (prefill) prefill->check_rest();
  }
  return failure_;
}

bool PairWorld::settled() const {
  if (to_arrive_ > 0 || !decode_->settled()) return false;
  for (const auto& prefill : prefills_) {
    if (!prefill || !prefill->settled()) return false;
  }
  return true;
}

std::string PairWorld::left_over() const {
  std::string text = "at " + std::to_string(clock_.now_us()) + " us, " + std::to_string(to_arrive_) +
                     " to arrive; decode node: " + decode_->describe();
  for (const auto& prefill : prefills_) text += prefill ? "; prefill node: " + prefill->describe() : "; a dead prefill node";
  return text;
}

void PairWorld::arrive() {
  --to_arrive_;
  const bool short_one = draw_.percent(40);
  decode_->submit(static_cast<int>(draw_.between(1, short_one ? 70 : 300)),
                  static_cast<int>(draw_.percent(20) ? 1 : draw_.between(2, 200)));
  if (draw_.percent(plan_.abort_percent)) clock_.after(draw_.between(0, 500'000), [this] { decode_->cancel_one(); });
}

void PairWorld::start_prefill(std::size_t index, NodeId successor_of) {
  auto node = std::make_unique<Prefill>(this, index);
  node->link = network_.add_node(&node->node, successor_of);
  auto sender = server::KvSender::create(plan_.sender, node->link, node.get());
  REQUIRE(sender.ok());
  node->sender = std::move(*sender);
  node->link->start(node->sender.get());
  prefills_[index] = std::move(node);
  connect(index);
}

void PairWorld::connect(std::size_t index) {
  if (!prefills_[index]) return;
  const SessionId id = next_session_++;
  sessions_.emplace(id, Session{.index = index});
  decode_->receiver->connect(id, prefills_[index]->link->address());
  prefills_[index]->sender->connect(id, decode_->link->address());
}

void PairWorld::kill_prefill(std::size_t index) {
  auto& node = prefills_[index];
  if (!node) return;
  ++coverage_->deaths;
  node->alive = false;
  network_.kill(node->node, draw_.percent(60) ? draw_.between(1'000, 100'000) : -1);
  node->sender.reset();
  const NodeId old = node->node;
  dead_.push_back(std::move(node));
  node = nullptr;
  for (auto& [id, session] : sessions_) {
    if (session.index == index && !session.over) end_session(id);
  }
  clock_.after(draw_.between(1'000, 500'000), [this, index, old] { start_prefill(index, old); });
}

void PairWorld::end_session(SessionId id) {
  Session& session = sessions_.at(id);
  if (std::exchange(session.over, true)) return;
  ++coverage_->sessions_lost;
  if (harmless_) fail("a session was lost for no reason");
  const std::size_t index = session.index;
  clock_.after(draw_.between(1, 50'000), [this, id, index] { decode_->node_lost(id, index); });
  if (Prefill* const prefill = prefills_[index].get()) {
    clock_.after(draw_.between(1, 50'000), [this, id, prefill] {
      if (prefill->alive) prefill->session_over(id);
    });
    clock_.after(200'000, [this, index, prefill] {
      if (prefills_[index].get() == prefill) connect(index);
    });
  }
}

void PairWorld::to_prefill(SessionId id, std::function<void(Prefill&)> message) {
  clock_.after(plan_.faults.delay_us, [this, id, message = std::move(message)] {
    const Session& session = sessions_.at(id);
    Prefill* const prefill = prefills_[session.index].get();
    if (!session.over && prefill != nullptr) message(*prefill);
  });
}

void PairWorld::to_decode(SessionId id, std::function<void(Decode&)> message) {
  clock_.after(plan_.faults.delay_us, [this, id, message = std::move(message)] {
    if (!sessions_.at(id).over) message(*decode_);
  });
}

}  // namespace lynx::sim
