// AVX2: the decoder's 32 lanes are four registers of 8; the encoder's loops are the plain ones.

#include <immintrin.h>

#include "quant/lossless_scalar_encoder.h"

namespace lynx::quant {
namespace {

constexpr int kGroups = 4;
constexpr int kGroupLanes = kLanes / kGroups;

/// For each set of lanes that want a word: which of the next words each gets.
struct ExpandTable {
  std::uint8_t source[256][kGroupLanes];
};
constexpr ExpandTable make_expand_table() {
  ExpandTable table{};
  for (int lanes = 0; lanes < 256; ++lanes) {
    std::uint8_t next = 0;
    for (int lane = 0; lane < kGroupLanes; ++lane) table.source[lanes][lane] = (lanes >> lane & 1) != 0 ? next++ : next;
  }
  return table;
}
constexpr ExpandTable kExpand = make_expand_table();

[[gnu::always_inline]] inline __m256i expand(__m256i packed, int lanes) {
  const __m128i source = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kExpand.source[lanes]));
  return _mm256_permutevar8x32_epi32(packed, _mm256_cvtepu8_epi32(source));
}

/// 8 lanes of the decoder.
struct DecoderLanes {
  __m256i bits;  ///< A lane's next bits are the upper ones.
  __m256i held;

  /// Takes a word for each lane with fewer than 16 bits. Returns where the words go on.
  [[gnu::always_inline]] const std::byte* refill(const std::byte* words) {
    const __m256i word_bits = _mm256_set1_epi32(kWordBits);
    const __m256i wanted = _mm256_cmpgt_epi32(word_bits, held);
    const auto lanes = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(wanted)));
    const __m256i next = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
    const __m256i word = _mm256_and_si256(expand(next, static_cast<int>(lanes)), wanted);
    bits = _mm256_or_si256(bits, _mm256_sllv_epi32(word, _mm256_sub_epi32(word_bits, held)));
    held = _mm256_add_epi32(held, _mm256_and_si256(wanted, word_bits));
    return words + static_cast<unsigned>(__builtin_popcount(lanes)) * kWordBytes;
  }

  /// Each lane's next exponent, by a table of exponent · 256 + length.
  [[gnu::always_inline]] __m256i take(const std::uint32_t* entries) {
    const __m256i entry = _mm256_i32gather_epi32(reinterpret_cast<const int*>(entries), _mm256_srli_epi32(bits, 24), 4);
    const __m256i length = _mm256_and_si256(entry, _mm256_set1_epi32(0xff));
    bits = _mm256_sllv_epi32(bits, length);
    held = _mm256_sub_epi32(held, length);
    return _mm256_srli_epi32(entry, 8);
  }
};

/// The next exponent of all 32 lanes, as bytes in order.
[[gnu::always_inline]] inline __m256i take_all(DecoderLanes (&groups)[kGroups], const std::uint32_t* entries) {
  const __m256i low = _mm256_packus_epi32(groups[0].take(entries), groups[1].take(entries));
  const __m256i high = _mm256_packus_epi32(groups[2].take(entries), groups[3].take(entries));
  return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

[[gnu::always_inline]] inline void merge(__m128i exponents, const std::byte* plane, Bf16* values) {
  const __m256i low = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(plane)));
  const __m256i spread =
      _mm256_and_si256(_mm256_or_si256(low, _mm256_slli_epi16(low, 8)), _mm256_set1_epi16(static_cast<short>(0x807f)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(values),
                      _mm256_or_si256(spread, _mm256_slli_epi16(_mm256_cvtepu8_epi16(exponents), 7)));
}

bool decode(const ExponentTable& table, const std::byte* words, const std::byte* words_end, const std::byte* plane,
            std::size_t rounds, Bf16* values) {
  std::uint32_t entries[256];
  for (int next = 0; next < 256; ++next) entries[next] = table.exponents[next] * 256u + table.lengths[next / 2];
  DecoderLanes groups[kGroups];
  for (DecoderLanes& group : groups) group = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  for (std::size_t i = 0; i < rounds * kRoundValues; i += kRoundValues) {
    if (words > words_end) return false;
    for (DecoderLanes& group : groups) words = group.refill(words);
    const __m256i first = take_all(groups, entries);
    const __m256i second = take_all(groups, entries);
    merge(_mm256_castsi256_si128(first), plane + i, values + i);
    merge(_mm256_extracti128_si256(first, 1), plane + i + 16, values + i + 16);
    merge(_mm256_castsi256_si128(second), plane + i + 32, values + i + 32);
    merge(_mm256_extracti128_si256(second, 1), plane + i + 48, values + i + 48);
  }
  __m256i left = _mm256_setzero_si256();
  for (const DecoderLanes& group : groups) left = _mm256_or_si256(left, group.bits);
  return words == words_end && _mm256_testz_si256(left, left) != 0;
}

}  // namespace

const LosslessKernels& avx2_lossless_kernels() {
  static constexpr LosslessKernels kKernels{count_lane_bits, encode, decode};
  return kKernels;
}

}  // namespace lynx::quant
