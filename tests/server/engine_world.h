#pragma once

// Seeded requests and engines of the property tests: prompts around block borders, every sampling parameter, pools that are too
// small.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "tests/server/engine_fake.h"

namespace lynx::server {

class World {
 public:
  explicit World(unsigned seed) : random_(seed) {}

  int upto(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return upto(n) == 0; }

  FakeSizes sizes() {
    return {.context = 400, .kv_blocks = 6 + upto(10), .max_rows = 1 + upto(80), .max_logit_rows = 1 + upto(12)};
  }

  EngineOptions options() {
    EngineOptions options;
    options.max_running = 1 + upto(12);
    options.chunk_rows_beside_decodes = 1 + upto(40);
    return options;
  }

  GenerateRequest request(int number) {
    GenerateRequest request;
    request.request_id = fmt::format("r{}", number);
    const int border = 64 * (1 + upto(3)) - 1 + upto(3);  // Around a block's end.
    const int length = one_in(3) ? border : 1 + upto(150);
    for (int i = 0; i < length; ++i) request.prompt.push_back(upto(fake_vocabulary()));
    request.max_tokens = 1 + upto(one_in(4) ? 4 : 130);
    request.choices = one_in(4) ? 2 + upto(3) : 1;
    sampling(request.sampling);
    request.ignore_eos = one_in(3);
    if (one_in(3)) request.top_logprobs = upto(4);
    if (one_in(2)) {  // A long answer: these are what preempts each other.
      request.prompt.resize(static_cast<std::size_t>(std::min(length, 1 + upto(60))));
      request.ignore_eos = true;
      request.max_tokens = 100 + upto(200);
      return request;
    }
    static const std::vector<std::string> kStops{"STOP", "END.", "é", "ab", "aaaaa", "日本", "\n", "cat a"};
    for (int i = one_in(2) ? 1 + upto(3) : 0; i > 0; --i) request.stop.push_back(kStops[static_cast<std::size_t>(upto(8))]);
    if (one_in(4)) request.stop_token_ids.push_back(2 + upto(fake_vocabulary() - 2));
    request.include_stop_text = one_in(4);
    if (one_in(5)) {
      request.prompt_top_logprobs = upto(3);
      if (one_in(2)) request.max_tokens = 0;
    }
    return request;
  }

 private:
  void sampling(model::SamplingParams& params) {
    params.seed = random_();
    params.temperature = one_in(3) ? 0.0F : 0.5F + static_cast<float>(upto(10)) / 10;
    if (one_in(4)) params.top_k = 1 + upto(10);
    if (one_in(4)) params.top_p = 0.3F + static_cast<float>(upto(7)) / 10;
    if (one_in(4)) params.min_p = static_cast<float>(upto(5)) / 10;
    if (one_in(4)) params.repetition_penalty = 1.2F;
    if (one_in(4)) params.frequency_penalty = 0.5F;
    if (one_in(4)) params.presence_penalty = -0.5F;
    if (one_in(4)) params.logit_bias.emplace_back(upto(fake_vocabulary()), 2.0F);
    if (one_in(3)) params.min_tokens = upto(12);
  }

  std::mt19937 random_;
};

}  // namespace lynx::server
