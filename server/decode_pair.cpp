#include "server/decode_pair.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "server/node_pair.h"
#include "server/pair_metrics.h"
#include "server/remote_prompts.h"

namespace lynx::server {
namespace {

class DecodePairImpl final : public DecodePair, private PairView {
 public:
  DecodePairImpl(std::unique_ptr<transport::Link> link, std::unique_ptr<RemotePrompts> prompts, std::string numerics,
                 std::string mode)
      : link_(std::move(link)), prompts_(std::move(prompts)), numerics_(std::move(numerics)), mode_(std::move(mode)) {}

  PromptTransfer* transfer() override { return prompts_.get(); }
  const PairView* view() const override { return this; }
  void start(std::function<void(bool)> on_ready) override { prompts_->start(std::move(on_ready)); }
  void stop() override { prompts_->stop(); }

 private:
  bool ready() const override {
    for (const PrefillNodeStatus& node : prompts_->nodes()) {
      if (node.up) return true;
    }
    return false;
  }

  nlohmann::ordered_json health() const override {
    nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
    for (const PrefillNodeStatus& node : prompts_->nodes()) {
      nodes.push_back({{"address", node.address},
                       {"up", node.up},
                       {"problem", node.problem},
                       {"model", node.model},
                       {"numerics", node.numerics},
                       {"same_numerics", node.same_numerics},
                       {"transport", node.transport},
                       {"device", node.device},
                       {"probe_bytes_per_s", node.probe_bytes_per_s},
                       {"outstanding_prompt_tokens", node.outstanding_prompt_tokens}});
    }
    return {{"numerics", numerics_}, {"prefill_nodes", std::move(nodes)}};
  }

  std::string metrics() const override { return decode_pair_metrics(prompts_->stats(), prompts_->nodes(), numerics_, mode_); }

  const std::unique_ptr<transport::Link> link_;
  const std::unique_ptr<RemotePrompts> prompts_;
  const std::string numerics_;
  const std::string mode_;
};

}  // namespace

Result<std::unique_ptr<DecodePair>> DecodePair::create(const Config& config, const NodeModel& model, kv::KvCache* cache,
                                                       kv::AnchorCache* anchors) {
  LYNX_TRY(auto secret, pair_secret(config));
  LYNX_TRY(auto link, open_link(config));
  const int vocabulary = model.model->config().vocabulary;
  LYNX_TRY(auto prompts, RemotePrompts::create({.nodes = config.prefill,
                                                .secret = std::move(secret),
                                                .transfer = *parse_transfer_mode(config.transfer),
                                                .require_transport = config.require_transport,
                                                .vocabulary = vocabulary,
                                                .hello = node_hello(model, model.model->config().context),
                                                .isa = model.isa,
                                                .draft_noise = config.test_draft_noise},
                                               link.get(), cache, anchors));
  return std::unique_ptr<DecodePair>(
      std::make_unique<DecodePairImpl>(std::move(link), std::move(prompts), model.numerics, config.transfer));
}

}  // namespace lynx::server
