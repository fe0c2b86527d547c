#pragma once

// What a model's planes need to know of it. Both nodes of a pair must have the same: the prefill node's travels in its hello.

#include <vector>

namespace lynx::quant {

/// Made by `lynx calibrate`. The empty one fits any model: no layer is special.
struct PlaneProfile {
  std::vector<bool> wide_k;  ///< [layers] whose K has wide Anchors, since some channels reach far beyond the others; or empty.

  bool is_wide_k(int layer) const {
    const auto index = static_cast<std::size_t>(layer);
    return index < wide_k.size() && wide_k[index];
  }
  friend bool operator==(const PlaneProfile&, const PlaneProfile&) = default;
};

}  // namespace lynx::quant
