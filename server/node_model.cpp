#include "server/node_model.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <thread>
#include <utility>

#include "common/log.h"
#include "common/units.h"
#include "kv/anchor_cache.h"
#include "kv/kv_cache.h"
#include "model/model_file.h"
#include "model/numerics_fingerprint.h"
#include "model/plane_profile_file.h"
#include "server/cache_units.h"

namespace lynx::server {
namespace {

std::int64_t modification_time(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<std::int64_t>(info.st_mtime) : 0;
}

/// The names given by --served-model-name; else the file's: "models/Tiny-Q4.gguf" → "Tiny-Q4".
std::vector<std::string> model_names(const Config& config) {
  if (!config.served_model_names.empty()) return config.served_model_names;
  std::string path = config.model;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::string name = path.substr(path.find_last_of('/') + 1);
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return {name};
}

Status load_text(model::ModelFile& file, NodeModel* loaded) {
  auto tokenizer = text::Tokenizer::create(file.tokenizer());
  if (!tokenizer.ok()) return tokenizer.status().with_context("tokenizer");
  loaded->tokenizer.emplace(std::move(tokenizer).value());
  const auto source = file.chat_template();
  if (!source) return {};
  auto parsed = text::ChatTemplate::parse(*source);
  if (!parsed.ok()) return parsed.status().with_context("chat template");
  loaded->chat_template.emplace(std::move(parsed).value());
  return {};
}

}  // namespace

int report(const Failure& failure) {
  log_error("cannot serve", {{"reason", failure.status.message()}});
  return failure.exit_code;
}

std::optional<Failure> refuse_common_config(const Config& config) {
  const auto refuse = [](Code code, std::string message) { return Failure{kExitUsage, {code, std::move(message)}}; };
  if (config.model.empty()) return refuse(Code::kInvalidArgument, "--model is needed: a .gguf file or a Hugging Face directory");
  if (config.device == DeviceKind::kCuda) {
    return refuse(Code::kUnimplemented, "--device cuda: this version computes models on the CPU only; run it with --device cpu");
  }
  return std::nullopt;
}

TokenText NodeModel::token_text() const {
  return [tokens = &*tokenizer](std::int32_t id) { return tokens->is_control(id) ? std::string_view{} : tokens->token_bytes(id); };
}

std::optional<Failure> load_node_model(const Config& config, bool for_pair, NodeModel* loaded) {
  auto isa = choose_isa(config.isa);
  if (!isa.ok()) return Failure{kExitUsage, isa.status().with_context("--isa")};
  loaded->isa = *isa;
  loaded->names = model_names(config);
  loaded->modified = modification_time(config.model);
  auto file = model::ModelFile::open(config.model);
  if (!file.ok()) return Failure{kExitModel, file.status()};
  if (Status status = load_text(**file, loaded); !status.ok()) return Failure{kExitModel, status.with_context(config.model)};
  std::string profile_source;
  auto profile = model::load_plane_profile(config.plane_profile, config.model, (*file)->config(), &profile_source);
  if (!profile.ok()) return Failure{kExitUsage, profile.status().with_context("--plane-profile")};
  loaded->profile = std::move(profile).value();
  log_info("plane profile",
           {{"source", profile_source},
            {"layers_with_wide_k", std::count(loaded->profile.wide_k.begin(), loaded->profile.wide_k.end(), true)}});
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  loaded->pool = std::make_unique<ThreadPool>(config.threads > 0 ? config.threads : cores);
  auto model = model::Model::load(**file, *isa, loaded->pool.get());
  if (!model.ok()) return Failure{kExitModel, model.status().with_context(config.model)};
  loaded->model = std::move(model).value();
  if (for_pair) {
    loaded->identity = model::identify(**file);
    auto numerics = model::numerics_fingerprint(*loaded->model);
    if (!numerics.ok()) return Failure{kExitRuntime, numerics.status().with_context("numerics fingerprint")};
    loaded->numerics = std::move(numerics).value();
  }
  (*file)->drop_pages();
  return std::nullopt;
}

Failure engine_failure(const Status& status) {
  // The model is loaded: what cannot be had is the KV memory that the settings ask for.
  if (status.code() == Code::kResourceExhausted) return {kExitUsage, status.with_context("--kv-memory")};
  return {status.code() == Code::kInvalidArgument ? kExitUsage : kExitModel, status};
}

void log_memory(const NodeModel& model, int kv_blocks, bool with_anchors, std::uint64_t transfer_bytes) {
  const auto weights = static_cast<std::int64_t>(model.model->weight_bytes());
  const kv::KvShape shape = model.model->kv_shape();
  const std::int64_t cache = kv_blocks * kv::KvCache::block_bytes(shape);
  const std::int64_t anchors =
      with_anchors ? kv_blocks * kv::AnchorCache::block_bytes(shape.layers, largest_anchor_bytes(shape)) : 0;
  const auto transfer = static_cast<std::int64_t>(transfer_bytes);
  log_info("memory", {{"weights", format_bytes(weights)},
                      {"kv_cache", format_bytes(cache)},
                      {"anchor_planes", format_bytes(anchors)},
                      {"registered_for_transfer", format_bytes(transfer)},
                      {"sum", format_bytes(weights + cache + anchors + transfer)}});
}

void log_model_loaded(const NodeModel& model, int max_model_len, int kv_blocks, std::chrono::steady_clock::time_point started) {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  log_info("model loaded", {{"model", model.names.front()},
                            {"isa", isa_name(model.isa)},
                            {"threads", model.pool->size()},
                            {"weights", format_bytes(static_cast<std::int64_t>(model.model->weight_bytes()))},
                            {"max_model_len", max_model_len},
                            {"kv_blocks", kv_blocks},
                            {"seconds", seconds.count()}});
}

Status write_port_file(const std::string& path, std::initializer_list<int> ports) {
  if (path.empty()) return {};
  const std::string partial = path + ".partial";
  std::ofstream file(partial);
  for (const int port : ports) file << port << '\n';
  file.close();
  if (!file || std::rename(partial.c_str(), path.c_str()) != 0) return invalid_argument("--port-file: cannot write " + path);
  return {};
}

}  // namespace lynx::server
