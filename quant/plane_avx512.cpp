// AVX-512: a row of a unit is two registers of 16 lanes.

#include <immintrin.h>

#include "quant/plane_exact_vector.h"

namespace lynx::quant {
namespace {

/// What plane_vector.h and plane_exact_vector.h ask of a path.
struct Avx512 {
  using Int = __m512i;
  using Float = __m512;
  using Mask = __mmask16;
  static constexpr int kWidth = 16;
  static constexpr unsigned kAllLanes = 0xffff;

  [[gnu::always_inline]] static Int set(int x) { return _mm512_set1_epi32(x); }
  /// Even lanes and odd ones.
  [[gnu::always_inline]] static Int set_pair(int even, int odd) {
    return _mm512_set1_epi64(static_cast<long long>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(odd)) << 32 |
                                                    static_cast<std::uint32_t>(even)));
  }
  [[gnu::always_inline]] static Float broadcast(float x) { return _mm512_set1_ps(x); }
  [[gnu::always_inline]] static Int bits(Float x) { return _mm512_castps_si512(x); }
  [[gnu::always_inline]] static Float float_of(Int x) { return _mm512_castsi512_ps(x); }
  [[gnu::always_inline]] static Float to_float(Int x) { return _mm512_cvtepi32_ps(x); }

  [[gnu::always_inline]] static Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  [[gnu::always_inline]] static Int sub(Int a, Int b) { return _mm512_sub_epi32(a, b); }
  [[gnu::always_inline]] static Int min(Int a, Int b) { return _mm512_min_epi32(a, b); }
  [[gnu::always_inline]] static Int max(Int a, Int b) { return _mm512_max_epi32(a, b); }
  [[gnu::always_inline]] static Int min_unsigned(Int a, Int b) { return _mm512_min_epu32(a, b); }
  [[gnu::always_inline]] static Int magnitude(Int a) { return _mm512_abs_epi32(a); }
  [[gnu::always_inline]] static Int bit_and(Int a, Int b) { return _mm512_and_si512(a, b); }
  [[gnu::always_inline]] static Int bit_or(Int a, Int b) { return _mm512_or_si512(a, b); }
  [[gnu::always_inline]] static Int bit_xor(Int a, Int b) { return _mm512_xor_si512(a, b); }
  template <int n>
  [[gnu::always_inline]] static Int shift_left(Int a) {
    return _mm512_slli_epi32(a, n);
  }
  template <int n>
  [[gnu::always_inline]] static Int shift_right(Int a) {
    return _mm512_srli_epi32(a, n);
  }
  template <int n>
  [[gnu::always_inline]] static Int shift_right_signed(Int a) {
    return _mm512_srai_epi32(a, n);
  }
  /// By each lane's own count; 32 and more, as unsigned numbers, leave nothing.
  [[gnu::always_inline]] static Int shift_left(Int a, Int n) { return _mm512_sllv_epi32(a, n); }
  [[gnu::always_inline]] static Int shift_right(Int a, Int n) { return _mm512_srlv_epi32(a, n); }
  [[gnu::always_inline]] static Int shift_right_signed(Int a, Int n) { return _mm512_srav_epi32(a, n); }

  [[gnu::always_inline]] static Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
  [[gnu::always_inline]] static Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
  [[gnu::always_inline]] static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  [[gnu::always_inline]] static Float div(Float a, Float b) { return _mm512_div_ps(a, b); }
  [[gnu::always_inline]] static Float min(Float a, Float b) { return _mm512_min_ps(a, b); }
  [[gnu::always_inline]] static Float max(Float a, Float b) { return _mm512_max_ps(a, b); }

  /// Of the lower bits, one a lane.
  [[gnu::always_inline]] static Mask mask(std::uint32_t lanes) { return static_cast<Mask>(lanes); }
  [[gnu::always_inline]] static unsigned lanes(Mask mask) { return mask; }
  [[gnu::always_inline]] static Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
  [[gnu::always_inline]] static Mask equal(Int a, Int b) { return _mm512_cmpeq_epi32_mask(a, b); }
  [[gnu::always_inline]] static Mask greater(Int a, Int b) { return _mm512_cmpgt_epi32_mask(a, b); }
  [[gnu::always_inline]] static Mask not_greater(Float a, Float b) { return _mm512_cmp_ps_mask(a, b, _CMP_NGT_UQ); }
  /// 0 in the other lanes; 0 in these.
  [[gnu::always_inline]] static Int keep(Mask mask, Int a) { return _mm512_maskz_mov_epi32(mask, a); }
  [[gnu::always_inline]] static Int drop(Mask mask, Int a) { return _mm512_maskz_mov_epi32(static_cast<Mask>(~mask), a); }
  [[gnu::always_inline]] static Int select(Mask mask, Int yes, Int no) { return _mm512_mask_blend_epi32(mask, no, yes); }
  [[gnu::always_inline]] static Float select(Mask mask, Float yes, Float no) { return _mm512_mask_blend_ps(mask, no, yes); }

  /// BF16 values, zero-extended; 16 bits of each lane.
  [[gnu::always_inline]] static Int load_values(const Bf16* in) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)));
  }
  [[gnu::always_inline]] static void store_values(Int values, Bf16* out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi32_epi16(values));
  }
  /// Of normal numbers and 0, as levels times scales are.
  [[gnu::always_inline]] static Int bf16_of(Float x) {
    return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
  }
  [[gnu::always_inline]] static Int load_nibbles(const std::byte* in) {
    const __m512i spread = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in)));
    return bit_and(bit_or(spread, _mm512_slli_epi64(spread, 28)), set(15));
  }
  [[gnu::always_inline]] static void store_nibbles(Int nibbles, std::byte* out) {
    const __m512i pairs = bit_or(nibbles, _mm512_srli_epi64(nibbles, 28));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm512_cvtepi64_epi8(pairs));
  }
  [[gnu::always_inline]] static Float load_floats(const float* in) { return _mm512_load_ps(in); }
  [[gnu::always_inline]] static void store_ints(Int a, std::int32_t* out) { _mm512_store_si512(out, a); }
  [[gnu::always_inline]] static Int load_ints(const std::uint32_t* in) { return _mm512_load_si512(in); }
  /// The entry is in the lower half.
  [[gnu::always_inline]] static Int look_up(const std::uint16_t* table, Int index) {
    return _mm512_i32gather_epi32(index, table, 2);
  }

  /// The encoder's entries. Permutes of the packed table are faster than gathers.
  [[gnu::always_inline]] static void look_up_symbols(const ResidualTables& tables, const Int (&rows)[2], const Int (&quotients)[2],
                                                     Int (&entries)[2]) {
    const __m512i row = _mm512_packus_epi32(rows[0], rows[1]);  // In an order that the unpacking below undoes.
    const __m512i quotient = _mm512_packs_epi32(quotients[0], quotients[1]);
    const __m512i symbol = _mm512_sub_epi16(quotient, of_row(tables.lowest, row));
    const __m512i or_escape = _mm512_min_epu16(symbol, of_row(tables.escape, row));
    const __m512i entry = at_packed(tables.packed, _mm512_add_epi16(of_row(tables.packed_from, row), or_escape));
    entries[0] = _mm512_unpacklo_epi16(entry, _mm512_setzero_si512());
    entries[1] = _mm512_unpackhi_epi16(entry, _mm512_setzero_si512());
  }

  /// Of all even lanes, and of all odd ones.
  [[gnu::always_inline]] static __m128 least_of_pairs(Float a) {
    const __m256 half = _mm256_min_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 quarter = _mm_min_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    return _mm_min_ps(quarter, _mm_movehl_ps(quarter, quarter));
  }
  [[gnu::always_inline]] static __m128 most_of_pairs(Float a) {
    const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    return _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  }
  [[gnu::always_inline]] static void store_pair(__m128 pair, float* out) { _mm_storel_pi(reinterpret_cast<__m64*>(out), pair); }

  /// The next words, one for each lane that wants one. Reads kWidth words.
  [[gnu::always_inline]] static Int expand_words(const std::uint8_t* words, Mask wanted) {
    const __m256i next = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
    return _mm512_maskz_expand_epi32(wanted, _mm512_cvtepu16_epi32(next));
  }
  /// The lower halves of those lanes, to end at `end`. May touch kWidth words before it.
  [[gnu::always_inline]] static void compress_words(Int a, Mask given, std::uint8_t* end) {
    const auto count = static_cast<unsigned>(__builtin_popcount(given));
    _mm256_mask_storeu_epi16(end - count * kWordBytes, static_cast<Mask>((1u << count) - 1),
                             _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(given, a)));
  }

 private:
  [[gnu::always_inline]] static __m512i of_row(const std::int16_t (&of)[kResidualRows], __m512i row) {
    return _mm512_permutexvar_epi16(row, _mm512_load_si512(of));
  }
  template <int from>
  [[gnu::always_inline]] static __m512i at_64(const std::uint16_t (&table)[kPackedSymbols], __m512i index) {
    return _mm512_permutex2var_epi16(_mm512_load_si512(table + from), index, _mm512_load_si512(table + from + 32));
  }
  [[gnu::always_inline]] static __m512i at_packed(const std::uint16_t (&table)[kPackedSymbols], __m512i index) {
    const __mmask32 bit6 = _mm512_movepi16_mask(_mm512_slli_epi16(index, 9));
    const __mmask32 bit7 = _mm512_movepi16_mask(_mm512_slli_epi16(index, 8));
    const __mmask32 bit8 = _mm512_movepi16_mask(_mm512_slli_epi16(index, 7));
    const __m512i first = _mm512_mask_blend_epi16(bit6, at_64<0>(table, index), at_64<64>(table, index));
    const __m512i second = _mm512_mask_blend_epi16(bit6, at_64<128>(table, index), at_64<192>(table, index));
    const __m512i third = _mm512_mask_blend_epi16(bit6, at_64<256>(table, index), at_64<320>(table, index));
    const __m512i fourth = _mm512_mask_blend_epi16(bit6, at_64<384>(table, index), at_64<448>(table, index));
    return _mm512_mask_blend_epi16(bit8, _mm512_mask_blend_epi16(bit7, first, second),
                                   _mm512_mask_blend_epi16(bit7, third, fourth));
  }
};

}  // namespace

const PlaneKernels& avx512_plane_kernels() {
  static constexpr PlaneKernels kKernels = vector_plane_kernels<Avx512>();
  return kKernels;
}

}  // namespace lynx::quant
