// AVX2: a row of a unit is four registers of 8 lanes. Without masked stores a set of words is written with what lies before it, and
// that is overwritten next.

#include <immintrin.h>

#include "quant/plane_exact_vector.h"

namespace lynx::quant {
namespace {

/// For each set of 8 lanes: which of the next words each of its lanes gets.
struct ExpandTable {
  std::uint8_t source[256][8];
};
constexpr ExpandTable make_expand_table() {
  ExpandTable table{};
  for (int lanes = 0; lanes < 256; ++lanes) {
    std::uint8_t next = 0;
    for (int lane = 0; lane < 8; ++lane) table.source[lanes][lane] = (lanes >> lane & 1) != 0 ? next++ : next;
  }
  return table;
}
constexpr ExpandTable kExpand = make_expand_table();

/// And the other way: where its lanes come from if they are moved together at the upper end.
constexpr ExpandTable make_compress_table() {
  ExpandTable table{};
  for (int lanes = 0; lanes < 256; ++lanes) {
    int at = 8;
    for (int lane = 8; lane-- > 0;) {
      if ((lanes >> lane & 1) != 0) table.source[lanes][--at] = static_cast<std::uint8_t>(lane);
    }
  }
  return table;
}
constexpr ExpandTable kCompress = make_compress_table();

struct Avx2 {
  using Int = __m256i;
  using Float = __m256;
  using Mask = __m256i;
  static constexpr int kWidth = 8;
  static constexpr unsigned kAllLanes = 0xff;

  [[gnu::always_inline]] static Int set(int x) { return _mm256_set1_epi32(x); }
  [[gnu::always_inline]] static Int set_pair(int even, int odd) {
    return _mm256_set1_epi64x(static_cast<long long>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(odd)) << 32 |
                                                     static_cast<std::uint32_t>(even)));
  }
  [[gnu::always_inline]] static Float broadcast(float x) { return _mm256_set1_ps(x); }
  [[gnu::always_inline]] static Int bits(Float x) { return _mm256_castps_si256(x); }
  [[gnu::always_inline]] static Float float_of(Int x) { return _mm256_castsi256_ps(x); }
  [[gnu::always_inline]] static Float to_float(Int x) { return _mm256_cvtepi32_ps(x); }

  [[gnu::always_inline]] static Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  [[gnu::always_inline]] static Int sub(Int a, Int b) { return _mm256_sub_epi32(a, b); }
  [[gnu::always_inline]] static Int min(Int a, Int b) { return _mm256_min_epi32(a, b); }
  [[gnu::always_inline]] static Int max(Int a, Int b) { return _mm256_max_epi32(a, b); }
  [[gnu::always_inline]] static Int min_unsigned(Int a, Int b) { return _mm256_min_epu32(a, b); }
  [[gnu::always_inline]] static Int magnitude(Int a) { return _mm256_abs_epi32(a); }
  [[gnu::always_inline]] static Int bit_and(Int a, Int b) { return _mm256_and_si256(a, b); }
  [[gnu::always_inline]] static Int bit_or(Int a, Int b) { return _mm256_or_si256(a, b); }
  [[gnu::always_inline]] static Int bit_xor(Int a, Int b) { return _mm256_xor_si256(a, b); }
  template <int n>
  [[gnu::always_inline]] static Int shift_left(Int a) {
    return _mm256_slli_epi32(a, n);
  }
  template <int n>
  [[gnu::always_inline]] static Int shift_right(Int a) {
    return _mm256_srli_epi32(a, n);
  }
  template <int n>
  [[gnu::always_inline]] static Int shift_right_signed(Int a) {
    return _mm256_srai_epi32(a, n);
  }
  [[gnu::always_inline]] static Int shift_left(Int a, Int n) { return _mm256_sllv_epi32(a, n); }
  [[gnu::always_inline]] static Int shift_right(Int a, Int n) { return _mm256_srlv_epi32(a, n); }
  [[gnu::always_inline]] static Int shift_right_signed(Int a, Int n) { return _mm256_srav_epi32(a, n); }

  [[gnu::always_inline]] static Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
  [[gnu::always_inline]] static Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
  [[gnu::always_inline]] static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  [[gnu::always_inline]] static Float div(Float a, Float b) { return _mm256_div_ps(a, b); }
  [[gnu::always_inline]] static Float min(Float a, Float b) { return _mm256_min_ps(a, b); }
  [[gnu::always_inline]] static Float max(Float a, Float b) { return _mm256_max_ps(a, b); }

  [[gnu::always_inline]] static Mask mask(std::uint32_t lanes) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(lanes)), bit), bit);
  }
  [[gnu::always_inline]] static unsigned lanes(Mask mask) {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(mask)));
  }
  [[gnu::always_inline]] static Mask both(Mask a, Mask b) { return _mm256_and_si256(a, b); }
  [[gnu::always_inline]] static Mask equal(Int a, Int b) { return _mm256_cmpeq_epi32(a, b); }
  [[gnu::always_inline]] static Mask greater(Int a, Int b) { return _mm256_cmpgt_epi32(a, b); }
  [[gnu::always_inline]] static Mask not_greater(Float a, Float b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_NGT_UQ)); }
  [[gnu::always_inline]] static Int keep(Mask mask, Int a) { return _mm256_and_si256(mask, a); }
  [[gnu::always_inline]] static Int drop(Mask mask, Int a) { return _mm256_andnot_si256(mask, a); }
  [[gnu::always_inline]] static Int select(Mask mask, Int yes, Int no) { return _mm256_blendv_epi8(no, yes, mask); }
  [[gnu::always_inline]] static Float select(Mask mask, Float yes, Float no) {
    return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(mask));
  }

  [[gnu::always_inline]] static Int load_values(const Bf16* in) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
  }
  [[gnu::always_inline]] static void store_values(Int values, Bf16* out) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), low_words(values));
  }
  [[gnu::always_inline]] static Int bf16_of(Float x) {
    const Int odd = bit_and(shift_right<16>(bits(x)), set(1));
    return shift_right<16>(add(bits(x), add(odd, set(0x7fff))));
  }
  [[gnu::always_inline]] static Int load_nibbles(const std::byte* in) {
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, in, sizeof bytes);
    const __m256i spread = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(static_cast<int>(bytes)));
    return bit_and(bit_or(spread, _mm256_slli_epi64(spread, 28)), set(15));
  }
  [[gnu::always_inline]] static void store_nibbles(Int nibbles, std::byte* out) {
    const __m256i pairs = bit_or(nibbles, _mm256_srli_epi64(nibbles, 28));
    const __m256i gathered = _mm256_shuffle_epi8(pairs, _mm256_set1_epi64x(0x0800));
    const __m128i bytes = _mm_unpacklo_epi16(_mm256_castsi256_si128(gathered), _mm256_extracti128_si256(gathered, 1));
    const int four = _mm_cvtsi128_si32(bytes);
    std::memcpy(out, &four, sizeof four);
  }
  [[gnu::always_inline]] static Float load_floats(const float* in) { return _mm256_load_ps(in); }
  [[gnu::always_inline]] static void store_ints(Int a, std::int32_t* out) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(out), a);
  }
  [[gnu::always_inline]] static Int load_ints(const std::uint32_t* in) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(in));
  }
  /// The entry is in the lower half.
  [[gnu::always_inline]] static Int look_up(const std::uint16_t* table, Int index) {
    return _mm256_i32gather_epi32(reinterpret_cast<const int*>(table), index, 2);
  }

  [[gnu::always_inline]] static void look_up_symbols(const ResidualTables& tables, const Int (&rows)[4], const Int (&quotients)[4],
                                                     Int (&entries)[4]) {
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const Int within = min(max(quotients[g], set(-kQuotients / 2)), set(kQuotients / 2 - 1));
      entries[g] = bit_and(look_up(tables.encode + kQuotients / 2, add(shift_left<6>(rows[g]), within)), set(0xffff));
    }
  }
  static_assert(kQuotients == 1 << 6);

  /// Of all even lanes, and of all odd ones.
  [[gnu::always_inline]] static __m128 least_of_pairs(Float a) {
    const __m128 half = _mm_min_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    return _mm_min_ps(half, _mm_movehl_ps(half, half));
  }
  [[gnu::always_inline]] static __m128 most_of_pairs(Float a) {
    const __m128 half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    return _mm_max_ps(half, _mm_movehl_ps(half, half));
  }
  [[gnu::always_inline]] static void store_pair(__m128 pair, float* out) {
    _mm_storel_pi(reinterpret_cast<__m64*>(out), pair);
  }

  /// The next words, one for each lane that wants one. Reads kWidth words.
  [[gnu::always_inline]] static Int expand_words(const std::uint8_t* words, Mask wanted) {
    const __m256i next = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
    return keep(wanted, _mm256_permutevar8x32_epi32(next, permutation(kExpand, lanes(wanted))));
  }
  /// The lower halves of those lanes, to end at `end`. May touch kWidth words before it.
  [[gnu::always_inline]] static void compress_words(Int a, Mask given, std::uint8_t* end) {
    const __m256i together = _mm256_permutevar8x32_epi32(a, permutation(kCompress, lanes(given)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(end - kWidth * kWordBytes), low_words(bit_and(together, set(0xffff))));
  }

 private:
  [[gnu::always_inline]] static __m128i low_words(Int a) {
    return _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  }
  [[gnu::always_inline]] static __m256i permutation(const ExpandTable& table, unsigned lanes) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(table.source[lanes])));
  }
};

}  // namespace

const PlaneKernels& avx2_plane_kernels() {
  static constexpr PlaneKernels kKernels = vector_plane_kernels<Avx2>();
  return kKernels;
}

}  // namespace lynx::quant
