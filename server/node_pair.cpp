#include "server/node_pair.h"

#include "common/log.h"
#include "kv/block_pool.h"
#include "server/engine.h"
#include "server/pair_hello.h"
#include "transport/ucx_link.h"

namespace lynx::server {

v1::NodeHello node_hello(const NodeModel& model, int max_model_len) {
  const kv::KvShape shape = model.model->kv_shape();
  v1::NodeHello hello;
  hello.set_protocol(kPairProtocol);
  hello.set_lynx_version(LYNX_VERSION);
  hello.set_weights(model.identity->weights);
  hello.set_tokenizer(model.identity->tokenizer);
  hello.set_kv_dtype("bf16");
  hello.set_block_tokens(kv::kBlockTokens);
  hello.set_layers(static_cast<std::uint32_t>(shape.layers));
  hello.set_kv_heads(static_cast<std::uint32_t>(shape.kv_heads));
  hello.set_head_dim(static_cast<std::uint32_t>(shape.head_dim));
  for (const TransferMode mode : kTransferModes) {
    hello.add_transfers(std::string(transfer_mode_name(mode)));
  }
  hello.set_numerics(model.numerics);
  hello.set_isa(std::string(isa_name(model.isa)));
  hello.set_model(model.names.front());
  hello.set_max_model_len(static_cast<std::uint32_t>(max_model_len));
  return hello;
}

Result<std::unique_ptr<transport::Link>> open_link(const Config& config) {
  auto link = transport::create_ucx_link({.net_devices = config.net_devices, .transports = {}});
  if (link.ok()) return link;
  return Status(Code::kInvalidArgument, link.status().message())
      .with_context(config.net_devices.empty() ? "data plane" : "--net-devices");
}

Result<std::string> pair_secret(const Config& config) {
  if (!config.pair_secret_file.empty()) return read_pair_secret(config.pair_secret_file);
  const bool local = config.host == "127.0.0.1" || config.host == "localhost" || config.host == "::1";
  if (!local) log_warning("no --pair-secret-file: whoever reaches the control port can use this node", {{"host", config.host}});
  return std::string();
}

}  // namespace lynx::server
