/* The products with AVX2 and F16C: 8 output rows in a register. */

#if defined(__x86_64__)
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define STORED_SIGN 0
#define UNSIGNED_BYTES 0
#define AVX2 static inline __attribute__((always_inline))

typedef __m256i ints;
typedef __m256 floats;

AVX2 ints splat(int32_t v) { return _mm256_set1_epi32(v); }
AVX2 ints bits_and(ints a, ints b) { return _mm256_and_si256(a, b); }
AVX2 ints bits_or(ints a, ints b) { return _mm256_or_si256(a, b); }
AVX2 ints shift_right(ints v, int n) { return _mm256_srli_epi32(v, n); }
AVX2 ints shift_right_signed(ints v, int n) { return _mm256_srai_epi32(v, n); }
AVX2 ints shift_left(ints v, int n) { return _mm256_slli_epi32(v, n); }
AVX2 ints stored(ints v) { return v; }
AVX2 floats f_splat(float v) { return _mm256_set1_ps(v); }
AVX2 floats f_add(floats a, floats b) { return _mm256_add_ps(a, b); }
AVX2 floats f_sub(floats a, floats b) { return _mm256_sub_ps(a, b); }
AVX2 floats f_mul(floats a, floats b) { return _mm256_mul_ps(a, b); }
AVX2 floats f_load(const float *from) { return _mm256_loadu_ps(from); }
AVX2 void f_store(float *to, floats v) { _mm256_storeu_ps(to, v); }
AVX2 floats to_floats(ints v) { return _mm256_cvtepi32_ps(v); }

AVX2 floats halves(ints v)
{
    __m256i low = _mm256_and_si256(v, splat(0xFFFF));
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

AVX2 void widen_halves(const uint8_t *from, float *to)
{
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)));
}

AVX2 ints look_up(ints indices, const int8_t *table)
{
    __m128i own = _mm_loadu_si128((const __m128i *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(own), indices);
}

/* Register i holds rows i and i+4, so that after the transposition lane l is row l. */
AVX2 ints two_rows(const uint8_t *row, size_t stride)
{
    __m128i low = _mm_loadu_si128((const __m128i *)row);
    __m128i high = _mm_loadu_si128((const __m128i *)(row + 4 * stride));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

AVX2 void load_rows(const uint8_t *row, size_t stride, ints out[4])
{
    __m256i a = two_rows(row, stride), b = two_rows(row + stride, stride);
    __m256i c = two_rows(row + 2 * stride, stride);
    __m256i d = two_rows(row + 3 * stride, stride);
    __m256i ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
    __m256i cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
    out[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
    out[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
    out[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
    out[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
}

AVX2 ints four_codes(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return splat(four);
}

/* |t| <= 128 as unsigned times x with t's sign: pairs stay within 2 * 128 * 127 < 2^15. */
AVX2 ints dot_any(ints sum, const ints t[4], const int8_t *x)
{
    for (int k = 0; k < 4; k++) {
        ints signed_x = _mm256_sign_epi8(four_codes(x + 4 * k), t[k]);
        ints pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(t[k]), signed_x);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    return sum;
}

/* Codes of at most 31: four pairs added stay within 8 * 31 * 127 < 2^15. */
AVX2 ints dot_small(ints sum, const ints t[4], const int8_t *x)
{
    ints pairs = _mm256_maddubs_epi16(t[0], four_codes(x));
    for (int k = 1; k < 4; k++)
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(t[k], four_codes(x + 4 * k)));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "product_body.h"
#include "set_body.h"

KERNEL_SET(kernel_avx2, "avx2");

#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int not_x86_64;
#endif
