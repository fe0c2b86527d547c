#pragma once

// What both daemons do at start: read a model, and say what is wrong with the settings.

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "device/isa.h"
#include "device/thread_pool.h"
#include "model/model.h"
#include "model/model_identity.h"
#include "quant/plane_profile.h"
#include "server/config.h"
#include "server/engine_runner.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace lynx::server {

/// A failure together with the exit code it means.
struct Failure {
  int exit_code;
  Status status;
};

/// Logs it; the exit code.
int report(const Failure& failure);

/// Settings that no daemon can run with.
std::optional<Failure> refuse_common_config(const Config& config);

struct NodeModel {
  std::vector<std::string> names;  ///< By which requests may ask for it.
  std::int64_t modified = 0;       ///< Unix seconds; of the file.
  Isa isa = Isa::kPortable;
  std::optional<text::Tokenizer> tokenizer;
  std::optional<text::ChatTemplate> chat_template;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<model::Model> model;
  std::optional<model::ModelIdentity> identity;  ///< Where it was asked for.
  std::string numerics;                          ///< Fingerprint; same.
  quant::PlaneProfile profile;

  TokenText token_text() const;  ///< Borrows the tokenizer.
};

/// `for_pair`: also identity and fingerprint.
std::optional<Failure> load_node_model(const Config& config, bool for_pair, NodeModel* loaded);

/// The exit code and words for an engine that could not be made.
Failure engine_failure(const Status& status);

/// The memory that was taken at start, item by item. `with_anchors`: blocks have room for Anchor planes; `transfer_bytes`:
/// registered for the data plane, 0 without one.
void log_memory(const NodeModel& model, int kv_blocks, bool with_anchors, std::uint64_t transfer_bytes);

void log_model_loaded(const NodeModel& model, int max_model_len, int kv_blocks, std::chrono::steady_clock::time_point started);

/// Writes the ports, one a line; whoever waits for the file never sees it half-written. Nothing where `path` is empty.
Status write_port_file(const std::string& path, std::initializer_list<int> ports);

}  // namespace lynx::server
