#include "tests/sim/world_plan.h"

#include <algorithm>
#include <limits>

namespace lynx::sim {
namespace {

SimFaults draw_faults(Draw& draw) {
  SimFaults faults;
  faults.delay_us = draw.percent(50) ? draw.between(5, 200) : draw.between(200, 30'000);
  faults.jitter_us = draw.percent(30) ? 0 : draw.between(0, faults.delay_us * 2);
  faults.sent_late_us = draw.percent(50) ? 0 : draw.between(0, 20'000);
  if (draw.percent(40)) faults.bytes_per_ms = draw.between(200, 20'000);
  if (draw.percent(40)) return faults;  // A good network.
  faults.loss = static_cast<int>(draw.percent(50) ? 0 : draw.between(1, 80));
  faults.duplicate = static_cast<int>(draw.percent(50) ? 0 : draw.between(1, 100));
  faults.replay = static_cast<int>(draw.percent(50) ? 0 : draw.between(1, 100));
  faults.damage_payload = static_cast<int>(draw.percent(50) ? 0 : draw.between(1, 60));
  faults.damage_header = static_cast<int>(draw.percent(50) ? 0 : draw.between(1, 40));
  faults.reorder = static_cast<int>(draw.percent(60) ? 0 : draw.between(1, 500));
  return faults;
}

}  // namespace

WorldPlan draw_plan(Draw& draw) {
  WorldPlan plan;
  plan.faults = draw_faults(draw);
  plan.prefill_nodes = static_cast<int>(draw.between(1, 2));
  plan.decode_nodes = static_cast<int>(draw.between(1, 2));
  plan.tickets = static_cast<int>(draw.between(1, 14));
  plan.arrivals_us = draw.percent(50) ? draw.between(0, 10'000) : draw.between(0, 3'000'000);
  plan.abort_percent = draw.percent(50) ? 0 : 30;
  plan.poison_percent = draw.percent(80) ? 0 : 15;
  plan.deaths = draw.percent(80) ? 0 : static_cast<int>(draw.between(1, 2));
  plan.stalls = draw.percent(75) ? 0 : static_cast<int>(draw.between(1, 2));
  plan.goes_down = draw.percent(8);
  plan.strangers = draw.percent(70) ? 0 : static_cast<int>(draw.between(1, 10));
  plan.unit_bytes_max = static_cast<std::uint32_t>(draw.between(1, 1200));

  auto& sender = plan.sender;
  sender.unit_bytes_max = plan.unit_bytes_max;
  sender.chunk_bytes =
      static_cast<std::uint32_t>(draw.percent(50) ? plan.unit_bytes_max : draw.between(1 + plan.unit_bytes_max / 6, 1200));
  sender.high_window_bytes = static_cast<std::uint64_t>(draw.between(plan.unit_bytes_max / 2 + 1, 8 * plan.unit_bytes_max));
  sender.background_window_bytes = static_cast<std::uint64_t>(draw.between(plan.unit_bytes_max / 2 + 1, 3 * plan.unit_bytes_max));
  sender.first_credit_bytes = static_cast<std::uint64_t>(draw.between(1, 2 * plan.unit_bytes_max));
  const std::uint64_t slot = (plan.unit_bytes_max + 63) / 64 * 64;
  plan.priority_is_checked = draw.percent(60);
  // The check knows nothing of new tickets that wait for an old Residual.
  sender.residual_age_us = plan.priority_is_checked ? std::numeric_limits<std::int64_t>::max() : draw.between(1, 2000) * 1000;
  sender.pool_bytes = slot * static_cast<std::uint64_t>(plan.priority_is_checked ? 1000 : draw.between(2, 12));
  // Where messages are lost, silence says little about the peer.
  if (plan.faults.loss + plan.faults.damage_payload + plan.faults.damage_header > 0) sender.watchdog_epochs = 9;

  auto& receiver = plan.receiver;
  receiver.unit_bytes_max = plan.unit_bytes_max;
  receiver.high_credit_bytes = static_cast<std::uint64_t>(draw.between(plan.unit_bytes_max / 2 + 1, 8 * plan.unit_bytes_max));
  receiver.background_credit_bytes = static_cast<std::uint64_t>(draw.between(plan.unit_bytes_max / 2 + 1, 3 * plan.unit_bytes_max));
  receiver.pool_bytes = slot * static_cast<std::uint64_t>(draw.between(2, 24));
  land_all_sessions(&plan);
  return plan;
}

void land_all_sessions(WorldPlan* plan) {
  const std::uint64_t slot = (plan->unit_bytes_max + 63) / 64 * 64;
  const auto sessions = static_cast<std::uint64_t>(plan->prefill_nodes + plan->deaths);
  plan->receiver.pool_bytes = std::max(plan->receiver.pool_bytes, slot * transport::kLanes * sessions);
}

Content content_of(std::uint64_t ticket_seed, const transport::UnitKey& unit, std::uint32_t unit_bytes_max) {
  std::uint64_t state = ticket_seed * 0x9e3779b97f4a7c15 + unit.layer * 1000003ULL + unit.block * 10007ULL +
                        static_cast<std::uint64_t>(unit.part) * 101ULL + 12345 + (transport::is_residual(unit.plane) ? 777 : 0);
  auto next = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  };
  for (int i = 0; i < 3; ++i) next();
  Content content;
  const bool first = next() % 2 == 0;
  if (unit.plane == transport::Plane::kAnchor) {
    content.plane = transport::Plane::kAnchor;
  } else if (transport::is_residual(unit.plane)) {
    content.plane = first ? transport::Plane::kBf16Residual : transport::Plane::kExactResidual;
  } else {
    content.plane = first ? transport::Plane::kBf16 : transport::Plane::kLossless;
  }
  content.bytes.resize(1 + next() % unit_bytes_max);
  for (std::byte& byte : content.bytes) byte = static_cast<std::byte>(next() >> 11);
  return content;
}

}  // namespace lynx::sim
