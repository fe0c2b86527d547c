#pragma once

// The decode node's pair, put together from settings: the UCX link, RemotePrompts over it, and how both look from outside.

#include <functional>
#include <memory>

#include "common/status.h"
#include "kv/kv_cache.h"
#include "server/config.h"
#include "server/node_model.h"
#include "server/pair_view.h"
#include "server/prompt_transfer.h"

namespace lynx::server {

class DecodePair {
 public:
  /// INVALID_ARGUMENT naming the setting that does not work. `model` and `cache` outlive it.
  static Result<std::unique_ptr<DecodePair>> create(const Config& config, const NodeModel& model, kv::KvCache* cache,
                                                    kv::AnchorCache* anchors);
  virtual ~DecodePair() = default;

  virtual PromptTransfer* transfer() = 0;
  virtual const PairView* view() const = 0;
  /// As RemotePrompts.
  virtual void start(std::function<void(bool)> on_ready) = 0;
  virtual void stop() = 0;
};

}  // namespace lynx::server
