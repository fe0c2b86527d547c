#include "text/stop_matcher.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/utf8.h"

namespace lynx::text {
namespace {

constexpr auto kByByte = [](const std::pair<char, std::int32_t>& edge, char byte) { return edge.first < byte; };

}  // namespace

Result<std::shared_ptr<const StopStrings>> StopStrings::create(std::span<const std::string> stops) {
  auto compiled = std::make_shared<StopStrings>();
  for (std::size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) return invalid_argument(fmt::format("stop string {} is empty", i));
    Node& end = compiled->nodes_[static_cast<std::size_t>(compiled->insert(stops[i]))];
    if (end.stop < 0) end.stop = static_cast<std::int32_t>(i);  // Of two equal ones the first is reported.
    compiled->lengths_.push_back(stops[i].size());
  }
  compiled->link();
  return std::shared_ptr<const StopStrings>(std::move(compiled));
}

std::int32_t StopStrings::child(std::int32_t node, char byte) const {
  const auto& next = nodes_[static_cast<std::size_t>(node)].next;
  const auto found = std::lower_bound(next.begin(), next.end(), byte, kByByte);
  return found != next.end() && found->first == byte ? found->second : -1;
}

std::int32_t StopStrings::step(std::int32_t node, char byte) const {
  for (;;) {
    if (const std::int32_t to = child(node, byte); to >= 0) return to;
    if (node == 0) return 0;
    node = nodes_[static_cast<std::size_t>(node)].fail;
  }
}

std::int32_t StopStrings::insert(std::string_view stop) {
  std::int32_t node = 0;
  for (const char byte : stop) {
    std::int32_t to = child(node, byte);
    if (to < 0) {
      to = static_cast<std::int32_t>(nodes_.size());
      auto& next = nodes_[static_cast<std::size_t>(node)].next;
      next.insert(std::lower_bound(next.begin(), next.end(), byte, kByByte), {byte, to});
      const std::int32_t depth = nodes_[static_cast<std::size_t>(node)].depth + 1;
      nodes_.push_back(Node{.next = {}, .fail = 0, .depth = depth, .stop = -1});
    }
    node = to;
  }
  return node;
}

void StopStrings::link() {
  // Breadth first: a node's suffix is shorter, so its own links are ready when it is needed.
  std::vector<std::int32_t> order{0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int32_t node = order[i];
    for (const auto& [byte, to] : nodes_[static_cast<std::size_t>(node)].next) {
      Node& target = nodes_[static_cast<std::size_t>(to)];
      target.fail = node == 0 ? 0 : step(nodes_[static_cast<std::size_t>(node)].fail, byte);
      if (target.stop < 0) target.stop = nodes_[static_cast<std::size_t>(target.fail)].stop;
      order.push_back(to);
    }
  }
}

StopMatcher::StopMatcher(std::shared_ptr<const StopStrings> stops, bool include_stop_text)
    : stops_(std::move(stops)), include_stop_text_(include_stop_text) {}

StopMatcher::Output StopMatcher::feed(std::string_view text) {
  if (stopped()) return {};
  if (stops_ == nullptr) return {release(std::string(text)), std::nullopt};
  held_.reserve(held_.size() + text.size());
  for (const char byte : text) {
    held_.push_back(byte);
    node_ = stops_->step(node_, byte);
    if (const std::int32_t stop = stops_->nodes_[static_cast<std::size_t>(node_)].stop; stop >= 0) {
      stop_ = stop;
      if (!include_stop_text_) held_.resize(held_.size() - stops_->lengths_[static_cast<std::size_t>(stop)]);
      return {release(std::exchange(held_, {})), stop_};
    }
  }
  const auto keep = static_cast<std::size_t>(stops_->nodes_[static_cast<std::size_t>(node_)].depth);
  std::string safe = held_.substr(0, held_.size() - keep);
  held_.erase(0, safe.size());
  return {release(std::move(safe)), std::nullopt};
}

std::string StopMatcher::flush() {
  node_ = 0;
  return release(std::exchange(held_, {}));
}

std::string StopMatcher::release(std::string text) {
  released_code_points_ += count_code_points(text);
  return text;
}

}  // namespace lynx::text
