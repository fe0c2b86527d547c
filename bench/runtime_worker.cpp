// Lynx's side of bench/runtime.py: a process that keeps the model loaded and times what it is told, one line in, one line out.
//
//   load                       -> seconds the load took, peak resident bytes, bytes of weights and KV cache
//   prefill TOKENS             -> seconds of the passes over a prompt of TOKENS tokens, logits of the last row included
//   decode CONTEXT STEPS       -> seconds of STEPS decode steps after CONTEXT tokens
//   quit

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "common/units.h"
#include "device/isa.h"
#include "device/thread_pool.h"
#include "kv/block_table.h"
#include "kv/kv_cache.h"
#include "model/model.h"
#include "model/model_file.h"

namespace lynx {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Worker {
 public:
  static Result<Worker> create(const std::string& path, const std::string& isa_text, int threads, std::int64_t kv_bytes) {
    auto start = Clock::now();
    LYNX_TRY(Isa isa, choose_isa(isa_text));
    auto pool = std::make_unique<ThreadPool>(threads);
    LYNX_TRY(auto file, model::ModelFile::open(path));
    LYNX_TRY(auto model, model::Model::load(*file, isa, pool.get()));
    file->drop_pages();
    int blocks = static_cast<int>(kv_bytes / kv::KvCache::block_bytes(model->kv_shape()));
    LYNX_TRY(auto cache, kv::KvCache::create(model->kv_shape(), blocks));
    double load_s = seconds_since(start);
    return Worker(std::move(pool), std::move(model), std::move(cache), blocks, load_s, kv_bytes);
  }

  void report_load() const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%.4f %ld %zu %lld\n", load_s_, usage.ru_maxrss * 1024L, model_->weight_bytes(), static_cast<long long>(kv_bytes_));
  }

  bool prefill(int tokens) {
    kv::BlockTable table(block_pool_.get());
    if (!table.reserve(tokens)) return false;
    auto start = Clock::now();
    run(table, 0, tokens);
    std::printf("%.6f\n", seconds_since(start));
    return true;
  }

  bool decode(int context, int steps) {
    kv::BlockTable table(block_pool_.get());
    if (!table.reserve(context + steps + 1)) return false;
    run(table, 0, std::max(context, 1));
    auto start = Clock::now();
    for (int step = 0; step < steps; ++step) run(table, std::max(context, 1) + step, 1);
    std::printf("%.6f\n", seconds_since(start));
    return true;
  }

 private:
  Worker(std::unique_ptr<ThreadPool> pool, std::unique_ptr<model::Model> model, kv::KvCache cache, int blocks, double load_s,
         std::int64_t kv_bytes)
      : pool_(std::move(pool)),
        model_(std::move(model)),
        cache_(std::move(cache)),
        block_pool_(std::make_unique<kv::BlockPool>(blocks)),
        load_s_(load_s),
        kv_bytes_(kv_bytes) {
    logits_.resize(static_cast<std::size_t>(model_->config().vocabulary));
  }

  // Passes over positions first … first+count−1; logits of the last one, and its argmax, as a server would need.
  void run(const kv::BlockTable& table, int first, int count) {
    while (count > 0) {
      int rows = std::min(count, model_->max_rows());
      tokens_.resize(static_cast<std::size_t>(rows));
      for (int i = 0; i < rows; ++i) tokens_[static_cast<std::size_t>(i)] = 1000 + (first + i) * 7 % 20000;
      attention::QuerySpan span{table.blocks().data(), first, rows, 0};
      int last = rows - 1;
      bool wanted = rows == count;
      model::ForwardBatch batch{tokens_, {&span, 1}, {&last, wanted ? 1U : 0U}};
      model_->forward(batch, cache_, logits_.data());
      first += rows;
      count -= rows;
    }
    best_ = std::max_element(logits_.begin(), logits_.end()) - logits_.begin();
  }

  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<model::Model> model_;
  kv::KvCache cache_;
  std::unique_ptr<kv::BlockPool> block_pool_;
  double load_s_;
  std::int64_t kv_bytes_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> logits_;
  std::ptrdiff_t best_ = 0;
};

int serve(Worker& worker) {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string verb;
    int first = 0;
    int second = 0;
    words >> verb >> first >> second;
    bool done = true;
    if (verb == "quit") return 0;
    if (verb == "load") {
      worker.report_load();
    } else if (verb == "prefill" && first > 0) {
      done = worker.prefill(first);
    } else if (verb == "decode" && second > 0) {
      done = worker.decode(first, second);
    } else {
      std::printf("error: unknown command '%s'\n", line.c_str());
    }
    if (!done) std::printf("error: '%s' does not fit the KV cache\n", line.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace lynx

int main(int argc, char** argv) {
  CLI::App app{"Times forward passes; driven by bench/runtime.py"};
  std::string path;
  std::string isa = "auto";
  std::string kv_memory = "256MiB";
  int threads = 1;
  app.add_option("--model", path)->required();
  app.add_option("--isa", isa)->capture_default_str();
  app.add_option("--threads", threads)->capture_default_str()->check(CLI::Range(1, 256));
  app.add_option("--kv-memory", kv_memory)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  auto bytes = lynx::parse_bytes(kv_memory);
  auto worker = bytes.ok() ? lynx::Worker::create(path, isa, threads, *bytes) : lynx::Result<lynx::Worker>(bytes.status());
  if (!worker.ok()) {
    std::fprintf(stderr, "%s\n", worker.status().to_string().c_str());
    return 1;
  }
  return lynx::serve(*worker);
}
