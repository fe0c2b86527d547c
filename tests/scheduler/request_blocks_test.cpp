#include "scheduler/request_blocks.h"

#include <random>

#include "tests/catch.h"
#include "tests/scheduler/block_model.h"

using namespace lynx::scheduler;

TEST_CASE("block counts equal real block tables with copy-on-write, whatever the order of writes and releases") {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int block_tokens = 1 + upto(5);
    const int prompt = 1 + upto(4 * block_tokens);
    const int choices = 1 + upto(4);
    RequestBlocks counted(prompt, choices, block_tokens);
    BlockModel model(block_tokens);

    std::vector<int> lengths(static_cast<std::size_t>(choices), prompt + 1);
    const int before = counted.growth_of_all(lengths);
    for (int c = 0; c < choices; ++c) counted.take_prompt(c);
    model.write({0, 0}, 0, prompt);
    for (int c = 1; c < choices; ++c) model.fork({0, 0}, {0, c});
    REQUIRE(counted.held() == model.used());
    REQUIRE(counted.held() == counted.prompt_blocks());
    REQUIRE(before == counted.held() + counted.growth_of_all(lengths));
    REQUIRE(before == counted.blocks_at(prompt + 1));

    lengths.assign(lengths.size(), prompt);
    for (int step = 0; step < 40; ++step) {
      const int c = upto(choices);
      if (!model.holds({0, c})) continue;
      int& length = lengths[static_cast<std::size_t>(c)];
      if (upto(10) == 0) {
        counted.release(c);
        model.release({0, c});
        length = 0;
      } else {
        const int grown = length + 1 + upto(2 * block_tokens);
        const int held = counted.held();
        const int growth = counted.growth(c, grown);
        counted.grow(c, grown);
        model.write({0, c}, length, grown);
        length = grown;
        REQUIRE(counted.held() == held + growth);
      }
      REQUIRE(counted.held() == model.used());
    }
  }
}

TEST_CASE("the growth of all choices together is the sum of their growths one after the other") {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int prompt = 1 + upto(20);
    const int choices = 1 + upto(4);
    RequestBlocks blocks(prompt, choices, 4);
    for (int c = 0; c < choices; ++c) blocks.take_prompt(c);
    for (int c = 0; c < choices; ++c) {
      if (upto(2) == 0) blocks.grow(c, prompt + 1 + upto(6));
      if (c > 0 && upto(5) == 0) blocks.release(c);
    }
    std::vector<int> targets;
    for (int c = 0; c < choices; ++c) targets.push_back(blocks.holds(c) && upto(3) > 0 ? prompt + upto(12) : 0);
    const int together = blocks.growth_of_all(targets);
    int one_by_one = 0;
    for (int c = 0; c < choices; ++c) {
      one_by_one += blocks.growth(c, targets[static_cast<std::size_t>(c)]);
      blocks.grow(c, targets[static_cast<std::size_t>(c)]);
    }
    REQUIRE(together == one_by_one);
  }
}
