/* The products with AVX-512 (F, BW, VL, DQ) and VNNI: 16 output rows in a register. */

#if defined(__x86_64__)
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,f16c,prefer-vector-width=512")
#endif

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define STORED_SIGN 128
#define UNSIGNED_BYTES 1
#define AVX512 static inline __attribute__((always_inline))

typedef __m512i ints;
typedef __m512 floats;

AVX512 ints splat(int32_t v) { return _mm512_set1_epi32(v); }
AVX512 ints bits_and(ints a, ints b) { return _mm512_and_si512(a, b); }
AVX512 ints bits_or(ints a, ints b) { return _mm512_or_si512(a, b); }
AVX512 ints shift_right(ints v, int n) { return _mm512_srli_epi32(v, (unsigned)n); }
AVX512 ints shift_right_signed(ints v, int n) { return _mm512_srai_epi32(v, (unsigned)n); }
AVX512 ints shift_left(ints v, int n) { return _mm512_slli_epi32(v, (unsigned)n); }
AVX512 ints stored(ints v) { return _mm512_xor_si512(v, splat((int32_t)0x80808080)); }
AVX512 floats f_splat(float v) { return _mm512_set1_ps(v); }
AVX512 floats f_add(floats a, floats b) { return _mm512_add_ps(a, b); }
AVX512 floats f_sub(floats a, floats b) { return _mm512_sub_ps(a, b); }
AVX512 floats f_mul(floats a, floats b) { return _mm512_mul_ps(a, b); }
AVX512 floats f_load(const float *from) { return _mm512_loadu_ps(from); }
AVX512 void f_store(float *to, floats v) { _mm512_storeu_ps(to, v); }
AVX512 floats to_floats(ints v) { return _mm512_cvtepi32_ps(v); }
AVX512 floats halves(ints v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }

AVX512 void widen_halves(const uint8_t *from, float *to)
{
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)));
}

AVX512 ints look_up(ints indices, const int8_t *table)
{
    __m128i own = _mm_loadu_si128((const __m128i *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(own), indices);
}

AVX512 __m128i sixteen(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)from);
}

/* Register i holds rows i, i+4, i+8, i+12 reordered so that lane 4j+i is row 4j+i. */
AVX512 ints four_rows(const uint8_t *row, size_t stride)
{
    __m512i v = _mm512_castsi128_si512(sixteen(row));
    v = _mm512_inserti32x4(v, sixteen(row + 4 * stride), 1);
    v = _mm512_inserti32x4(v, sixteen(row + 8 * stride), 2);
    return _mm512_inserti32x4(v, sixteen(row + 12 * stride), 3);
}

AVX512 void load_rows(const uint8_t *row, size_t stride, ints out[4])
{
    __m512i a = four_rows(row, stride), b = four_rows(row + stride, stride);
    __m512i c = four_rows(row + 2 * stride, stride);
    __m512i d = four_rows(row + 3 * stride, stride);
    __m512i ab_low = _mm512_unpacklo_epi32(a, b), ab_high = _mm512_unpackhi_epi32(a, b);
    __m512i cd_low = _mm512_unpacklo_epi32(c, d), cd_high = _mm512_unpackhi_epi32(c, d);
    out[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
    out[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
    out[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
    out[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

/* Codes are stored unsigned; every product of four is below 2^18: nothing saturates. */
AVX512 ints dot_any(ints sum, const ints t[4], const int8_t *x)
{
    for (int k = 0; k < 4; k++) {
        int32_t four;
        memcpy(&four, x + 4 * k, sizeof four);
        sum = _mm512_dpbusd_epi32(sum, t[k], splat(four));
    }
    return sum;
}

AVX512 ints dot_small(ints sum, const ints t[4], const int8_t *x)
{
    return dot_any(sum, t, x);
}

#include "product_body.h"
#include "set_body.h"

KERNEL_SET(kernel_avx512, "avx512");

#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int not_x86_64;
#endif
