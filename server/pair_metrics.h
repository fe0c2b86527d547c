#pragma once

#include <string>
#include <vector>

#include "server/prompt_server.h"
#include "server/remote_prompts.h"

namespace lynx::server {

// The pair's part of /metrics, in text exposition format: lynx_transport_… and lynx_pair_… series. `mode` is --transfer.
std::string decode_pair_metrics(const RemotePromptsStats& stats, const std::vector<PrefillNodeStatus>& nodes,
                                const std::string& numerics, const std::string& mode);
std::string prefill_pair_metrics(const PromptServerStats& stats, const std::string& numerics);

}  // namespace lynx::server
