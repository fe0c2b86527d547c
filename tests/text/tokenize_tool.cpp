// Tokenizes texts for compare_tokenizer.py: reads frames from stdin (a 4-byte little-endian length, then UTF-8), writes for each a
// 4-byte count and the ids as 4-byte integers. With --time, instead says how many MB/s one thread encodes of what it read.
//
//   lynx_tokenize VOCABULARY.gguf [--special] [--time]

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tests/text/vocab_file.h"
#include "text/tokenizer.h"

namespace {

using lynx::text::Tokenizer;

std::vector<std::string_view> frames_of(std::string_view input) {
  std::vector<std::string_view> frames;
  while (input.size() >= 4) {
    std::uint32_t size = 0;
    std::memcpy(&size, input.data(), 4);
    frames.push_back(input.substr(4, size));
    input.remove_prefix(4 + frames.back().size());
  }
  return frames;
}

int run(const Tokenizer& tokenizer, const std::vector<std::string_view>& frames, bool special) {
  for (const std::string_view text : frames) {
    auto ids = tokenizer.encode(text, special);
    if (!ids.ok()) {
      std::cerr << ids.status().to_string() << '\n';
      return 1;
    }
    const auto count = static_cast<std::uint32_t>(ids->size());
    std::cout.write(reinterpret_cast<const char*>(&count), 4);
    std::cout.write(reinterpret_cast<const char*>(ids->data()), static_cast<std::streamsize>(ids->size() * 4));
  }
  return 0;
}

int time(const Tokenizer& tokenizer, const std::vector<std::string_view>& frames, bool special) {
  double best = 1e300;
  std::size_t bytes = 0;
  std::size_t tokens = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    bytes = 0;
    tokens = 0;
    const std::clock_t start = std::clock();  // Processor time: neighbours on the machine count less.
    for (const std::string_view text : frames) {
      bytes += text.size();
      tokens += tokenizer.encode(text, special)->size();
    }
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  std::cout << fmt::format("{} bytes, {} tokens, best of 5: {:.1f} MB per second of processor time\n", bytes, tokens,
                           static_cast<double>(bytes) / best / 1e6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  const auto has = [&](std::string_view flag) { return std::find(arguments.begin(), arguments.end(), flag) != arguments.end(); };
  if (arguments.empty()) {
    std::cerr << "usage: lynx_tokenize VOCABULARY.gguf [--special] [--time] < frames\n";
    return 2;
  }
  auto spec = lynx::text::test::read_gguf_vocabulary(std::string(arguments[0]));
  auto tokenizer = spec.ok() ? Tokenizer::create(*spec) : lynx::Result<Tokenizer>(spec.status());
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().to_string() << '\n';
    return 2;
  }
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  return has("--time") ? time(*tokenizer, frames_of(input), has("--special")) : run(*tokenizer, frames_of(input), has("--special"));
}
