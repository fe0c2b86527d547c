// AVX-512 with VBMI: the 32 lanes are two registers of 16, code tables lie in registers and are looked up by byte permutes.

#include <immintrin.h>

#include "quant/lossless_kernels.h"

namespace lynx::quant {
namespace {

constexpr int kGroups = 2;
constexpr int kGroupLanes = kLanes / kGroups;

/// 256 bytes in registers.
struct ByteTable {
  __m512i quarter[4];

  explicit ByteTable(const std::uint8_t* bytes) {
    for (int q = 0; q < 4; ++q) quarter[q] = _mm512_load_si512(bytes + 64 * q);
  }
  [[gnu::always_inline]] __m512i at(__m512i index) const {
    const __m512i low = _mm512_permutex2var_epi8(quarter[0], index, quarter[1]);
    const __m512i high = _mm512_permutex2var_epi8(quarter[2], index, quarter[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high);
  }
};

[[gnu::always_inline]] inline __m512i join(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
[[gnu::always_inline]] inline __m256i low_half(__m512i both) {
  return _mm512_castsi512_si256(both);
}
[[gnu::always_inline]] inline __m256i high_half(__m512i both) {
  return _mm512_extracti64x4_epi64(both, 1);
}

struct Round {
  __m512i first;   ///< 32 values, one a lane.
  __m512i second;  ///< And the lanes' next.

  [[gnu::always_inline]] explicit Round(const Bf16* values)
      : first(_mm512_loadu_si512(values)), second(_mm512_loadu_si512(values + kLanes)) {}
  [[gnu::always_inline]] __m512i exponents() const {
    return join(_mm512_cvtepi16_epi8(_mm512_srli_epi16(first, 7)), _mm512_cvtepi16_epi8(_mm512_srli_epi16(second, 7)));
  }
  [[gnu::always_inline]] __m512i signs_and_mantissas() const { return join(fold(first), fold(second)); }

 private:
  [[gnu::always_inline]] static __m256i fold(__m512i values) {
    // (values & 0x7f) | (values >> 8 & 0x80): where the mask is set, the first, else the second; the upper byte is dropped.
    const __m512i mantissa = _mm512_set1_epi16(0x7f);
    return _mm512_cvtepi16_epi8(_mm512_ternarylogic_epi32(mantissa, values, _mm512_srli_epi16(values, 8), 0xca));
  }
};

void count_lane_bits(const Bf16* values, std::size_t rounds, const CodeLengths& lengths, std::uint8_t (&bits)[kLanes]) {
  const ByteTable table(lengths.of);
  __m512i sum = _mm512_setzero_si512();
  for (std::size_t round = 0; round < rounds; ++round) {
    sum = _mm512_add_epi8(sum, table.at(Round(values + round * kRoundValues).exponents()));
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(bits), _mm256_add_epi8(low_half(sum), high_half(sum)));
}

/// 16 lanes of the encoder; lossless_scalar_encoder.h says what they hold.
struct EncoderLanes {
  __m512i bits;
  __m512i held;

  explicit EncoderLanes(const std::uint8_t* padding)
      : bits(_mm512_setzero_si512()), held(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(padding)))) {}

  /// Prepends both words of a round, after giving 16 bits away where they would not fit. Returns where the words now begin.
  [[gnu::always_inline]] std::byte* push(__m256i codes, __m256i lengths, std::byte* words) {
    const __m512i length = _mm512_cvtepu16_epi32(lengths);
    const __mmask16 full = _mm512_cmpgt_epu32_mask(_mm512_add_epi32(held, length), _mm512_set1_epi32(31));
    words = give(full, words);
    bits = _mm512_mask_srli_epi32(bits, full, bits, kWordBits);
    held = _mm512_mask_sub_epi32(held, full, held, _mm512_set1_epi32(kWordBits));
    bits = _mm512_or_si512(bits, _mm512_sllv_epi32(_mm512_cvtepu16_epi32(codes), held));
    held = _mm512_add_epi32(held, length);
    return words;
  }
  [[gnu::always_inline]] std::byte* give(__mmask16 lanes, std::byte* words) const {
    const auto count = static_cast<unsigned>(__builtin_popcount(lanes));
    words -= count * kWordBytes;
    _mm256_mask_storeu_epi16(words, static_cast<__mmask16>((1u << count) - 1),
                             _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(lanes, bits)));
    return words;
  }
};

void encode(const Bf16* values, std::size_t rounds, const ExponentCode& code, const std::uint8_t (&padding)[kLanes],
            std::byte* words_end, std::byte* plane) {
  const ByteTable length_table(code.lengths.of);
  const ByteTable word_table(code.words);
  EncoderLanes low(padding);
  EncoderLanes high(padding + kGroupLanes);
  std::byte* words = words_end;
  for (std::size_t i = rounds; i-- > 0;) {
    const Round round(values + i * kRoundValues);
    _mm512_storeu_si512(plane + i * kRoundValues, round.signs_and_mantissas());
    const __m512i exponents = round.exponents();
    const __m512i lengths = length_table.at(exponents);
    const __m512i codes = word_table.at(exponents);
    const __m512i second_lengths = _mm512_cvtepu8_epi16(high_half(lengths));
    const __m512i both_lengths = _mm512_add_epi16(_mm512_cvtepu8_epi16(low_half(lengths)), second_lengths);
    const __m512i both = _mm512_or_si512(_mm512_sllv_epi16(_mm512_cvtepu8_epi16(low_half(codes)), second_lengths),
                                         _mm512_cvtepu8_epi16(high_half(codes)));
    words = high.push(high_half(both), high_half(both_lengths), words);
    words = low.push(low_half(both), low_half(both_lengths), words);
  }
  low.give(0xffff, high.give(0xffff, words));
}

/// 16 lanes of the decoder.
struct DecoderLanes {
  __m512i bits = _mm512_setzero_si512();  ///< A lane's next bits are the upper ones.
  __m512i held = _mm512_setzero_si512();

  /// Takes a word for each lane with fewer than 16 bits. Returns where the words go on.
  [[gnu::always_inline]] const std::byte* refill(const std::byte* words) {
    const __m512i word_bits = _mm512_set1_epi32(kWordBits);
    const __mmask16 wanted = _mm512_cmplt_epu32_mask(held, word_bits);
    const __m512i next = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)));
    const __m512i word = _mm512_maskz_expand_epi32(wanted, next);
    bits = _mm512_or_si512(bits, _mm512_sllv_epi32(word, _mm512_sub_epi32(word_bits, held)));
    held = _mm512_mask_add_epi32(held, wanted, held, word_bits);
    return words + static_cast<unsigned>(__builtin_popcount(wanted)) * kWordBytes;
  }

  /// Each lane's next 8 bits, which begin with a code word; the word is taken away.
  [[gnu::always_inline]] __m128i take(__m512i short_lengths, __m512i long_lengths) {
    constexpr __mmask64 kLowBytes = 0x1111'1111'1111'1111;
    const __m128i next = _mm512_cvtepi32_epi8(_mm512_srli_epi32(bits, 24));
    const __m512i length = _mm512_maskz_permutex2var_epi8(kLowBytes, short_lengths, _mm512_srli_epi32(bits, 25), long_lengths);
    bits = _mm512_sllv_epi32(bits, length);
    held = _mm512_sub_epi32(held, length);
    return next;
  }
};

[[gnu::always_inline]] inline __m512i merge(__m256i exponents, __m256i signs_and_mantissas) {
  const __m512i low = _mm512_cvtepu8_epi16(signs_and_mantissas);
  const __m512i spread =
      _mm512_and_si512(_mm512_or_si512(low, _mm512_slli_epi16(low, 8)), _mm512_set1_epi16(static_cast<short>(0x807f)));
  return _mm512_or_si512(spread, _mm512_slli_epi16(_mm512_cvtepu8_epi16(exponents), 7));
}

bool decode(const ExponentTable& table, const std::byte* words, const std::byte* words_end, const std::byte* plane,
            std::size_t rounds, Bf16* values) {
  const ByteTable exponent_table(table.exponents);
  const __m512i short_lengths = _mm512_load_si512(table.lengths);
  const __m512i long_lengths = _mm512_load_si512(table.lengths + 64);
  DecoderLanes low;
  DecoderLanes high;
  for (std::size_t round = 0; round < rounds; ++round) {
    if (words > words_end) return false;
    words = high.refill(low.refill(words));
    const __m128i low_first = low.take(short_lengths, long_lengths);
    const __m128i high_first = high.take(short_lengths, long_lengths);
    const __m128i low_second = low.take(short_lengths, long_lengths);
    const __m128i high_second = high.take(short_lengths, long_lengths);
    const __m512i exponents =
        exponent_table.at(join(_mm256_set_m128i(high_first, low_first), _mm256_set_m128i(high_second, low_second)));
    const __m512i signs_and_mantissas = _mm512_loadu_si512(plane + round * kRoundValues);
    Bf16* out = values + round * kRoundValues;
    _mm512_storeu_si512(out, merge(low_half(exponents), low_half(signs_and_mantissas)));
    _mm512_storeu_si512(out + kLanes, merge(high_half(exponents), high_half(signs_and_mantissas)));
  }
  const __m512i left = _mm512_or_si512(low.bits, high.bits);
  return words == words_end && _mm512_test_epi32_mask(left, left) == 0;
}

}  // namespace

const LosslessKernels& avx512_lossless_kernels() {
  static constexpr LosslessKernels kKernels{count_lane_bits, encode, decode};
  return kKernels;
}

}  // namespace lynx::quant
