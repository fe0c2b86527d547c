#include "text/utf8.h"

#include <cstdint>
#include <fstream>
#include <random>
#include <string>

#include <fmt/format.h>

#include "tests/catch.h"
#include "text/byte_alphabet.h"
#include "text/utf8_assembler.h"

namespace lynx::text {
namespace {

/// Bytes on both sides of every border in the definition of UTF-8; make_tokenizer_goldens.py has the same.
constexpr unsigned char kBytes[] = {0x41, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2,
                                    0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff};

std::string assemble(std::string_view bytes) {
  Utf8Assembler assembler;
  std::string text = assembler.push(bytes);
  return text + assembler.finish();
}

TEST_CASE("Every code point survives, and nothing else is UTF-8") {
  // By the definition: the shortest encoding of a scalar value.
  std::string all;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string one;
    append_utf8(one, c);
    const Utf8Step step = decode_utf8(one);
    const bool right = step.kind == Utf8Step::Kind::kValid && step.length == one.size() && step.code_point == c &&
                       one.size() == (c < 0x80      ? 1u
                                      : c < 0x800   ? 2u
                                      : c < 0x10000 ? 3u
                                                    : 4u);
    if (!right) FAIL("code point " << static_cast<std::uint32_t>(c));
    all += one;
  }
  CHECK_FALSE(find_invalid_utf8(all).has_value());
  CHECK(count_code_points(all) == 0x110000 - 0x800);

  // All sequences of three bytes: valid only if they are what encoding their code points gives.
  std::size_t wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x1000000; ++bits) {
    const char bytes[] = {static_cast<char>(bits >> 16), static_cast<char>(bits >> 8), static_cast<char>(bits)};
    const std::string_view sequence(bytes, 3);
    std::string again;
    std::string_view rest = sequence;
    while (!rest.empty()) {
      const Utf8Step step = decode_utf8(rest);
      if (step.kind != Utf8Step::Kind::kValid) break;
      append_utf8(again, step.code_point);
      rest.remove_prefix(step.length);
    }
    const auto invalid = find_invalid_utf8(sequence);
    wrong += invalid.value_or(3) != 3 - rest.size() || (rest.empty() && again != sequence) ? 1 : 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("Where invalid UTF-8 begins") {
  CHECK(find_invalid_utf8("") == std::nullopt);
  CHECK(find_invalid_utf8("abc\x80") == 3u);
  CHECK(find_invalid_utf8("12345678\xff") == 8u);
  CHECK(find_invalid_utf8("\xc0\xaf") == 0u);            // Overlong
  CHECK(find_invalid_utf8("x\xed\xa0\x80") == 1u);       // A surrogate
  CHECK(find_invalid_utf8("xy\xf4\x90\x80\x80") == 2u);  // Beyond U+10FFFF
  CHECK(find_invalid_utf8("é\xe4\xb8") == 2u);           // Cut off
}

TEST_CASE("Replacement is Python's, over all sequences of up to four border bytes") {
  std::ifstream golden("tests/goldens/tokenizer/replace.txt");
  REQUIRE(golden.good());
  for (const unsigned char first : kBytes) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    std::uint64_t sequences = 1;
    for (int length = 0; length < 4; ++length, sequences *= std::size(kBytes)) {
      for (std::uint64_t index = 0; index < sequences; ++index) {
        std::string bytes(1, static_cast<char>(first));
        for (std::uint64_t unit = sequences / std::size(kBytes), rest = index; unit > 0; rest %= unit, unit /= std::size(kBytes)) {
          bytes.push_back(static_cast<char>(kBytes[rest / unit]));
        }
        for (const char byte : assemble(bytes)) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
      }
    }
    std::string line;
    REQUIRE(std::getline(golden, line));
    CHECK(line == fmt::format("{:x} {:016x}", first, hash));
  }
}

TEST_CASE("Replacement, by example") {
  CHECK(assemble("a\xff"
                 "b") ==
        "a\xef\xbf\xbd"
        "b");
  CHECK(assemble("\xf0\x9f\x98") == "\xef\xbf\xbd");
  CHECK(assemble("\xe2\x82\xe2\x82\xac") == "\xef\xbf\xbd€");
  CHECK(assemble("\xed\xa0\x80") == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("However bytes are split, the text is the same") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (auto n = random() % 24; n > 0; --n) {
      if (random() % 3 == 0) {
        append_utf8(bytes, static_cast<char32_t>(0x20 + random() % 0x1000 * (random() % 13)));
      } else {
        bytes.push_back(static_cast<char>(kBytes[random() % std::size(kBytes)]));
      }
    }
    const std::string whole = assemble(bytes);
    Utf8Assembler assembler;
    Utf8Assembler saved;
    std::string text;
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::string_view piece = rest.substr(0, 1 + random() % 4);
      saved = assembler;
      assembler.push("\xf0\x9f");  // A draft that is rolled back.
      assembler = saved;
      text += assembler.push(piece);
      CHECK_FALSE(find_invalid_utf8(text).has_value());
      CHECK(assembler.code_points() == count_code_points(text));
      rest.remove_prefix(piece.size());
    }
    text += assembler.finish();
    if (text != whole) FAIL("split text differs, round " << round);
    REQUIRE(assembler.code_points() == count_code_points(text));
  }
}

TEST_CASE("The byte alphabet is a bijection over 256 printable characters") {
  std::string spelled;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    CHECK(count_code_points(spelling_of_bytes(one)) == 1);
    CHECK(bytes_of_spelling(spelling_of_bytes(one)) == one);
    spelled += spelling_of_bytes(one);
  }
  CHECK(spelling_of_bytes(" \n\xff") == "ĠĊÿ");
  CHECK(spelling_of_bytes(std::string_view("\0\x7f\xad", 3)) == "ĀġŃ");
  CHECK(bytes_of_spelling(spelled)->size() == 256);
  CHECK(bytes_of_spelling("a b") == std::nullopt);
  CHECK(bytes_of_spelling("\u0144") == std::nullopt);
  CHECK(bytes_of_spelling("\xff") == std::nullopt);
}

}  // namespace
}  // namespace lynx::text
