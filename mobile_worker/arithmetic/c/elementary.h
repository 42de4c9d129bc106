/* Elementary functions, gated activations and the block coding of rows.

   Specification 02: every operation is one binary32 rounding, in the order written;
   compile with -ffp-contract=off and without fast-math. Element-wise loops that
   compilers vectorise: no result depends on another element, but for a block's scale. */

#ifndef P2PMOE_ELEMENTARY_H
#define P2PMOE_ELEMENTARY_H

#include <stddef.h>
#include <stdint.h>

#include "formats.h"

#define CODING_BLOCK 32
#define ACTIVATION_Q 127
#define RESULT_Q 32767

enum activation { SWIGLU = 0, SWIGLU_OAI = 1 };

/* Added and taken off again it rounds to the nearest integer, ties to even, for
   |v| <= 2^22; between the two, the integer is what the bits exceed MAGIC_BITS by. */
#define MAGIC 0x1.8p23f
#define MAGIC_BITS 0x4B400000u

static inline float round_even(float v) { return (v + MAGIC) - MAGIC; }

static inline float at_least(float v, float low) { return v < low ? low : v; }
static inline float at_most(float v, float high) { return v > high ? high : v; }

/* e^z for z clamped to [-87, 88]; at most 0.99 ulp from the exact value. Not a number
   stays none. */
static inline float spec_exp(float z)
{
    z = at_most(at_least(z, -87.0f), 88.0f);
    float shifted = z * 1.44269504f + MAGIC, n = shifted - MAGIC;
    float r = (z - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    float y = (p * (r * r) + r) + 1.0f;
    return y * bits_float((float_bits(shifted) - MAGIC_BITS + 127) << 23);
}

static inline float spec_sigmoid(float z)
{
    return 1.0f / (1.0f + spec_exp(-z));
}

/* h = act(g, u), n values; h may be g or u. */
static inline void swiglu(size_t n, const float *g, const float *u, float *h)
{
    for (size_t i = 0; i < n; i++)
        h[i] = (g[i] * spec_sigmoid(g[i])) * u[i];
}

static inline void swiglu_oai(size_t n, float alpha, float limit, const float *g,
                              const float *u, float *h)
{
    for (size_t i = 0; i < n; i++) {
        float gate = at_most(g[i], limit);
        float up = at_least(at_most(u[i], limit), -limit);
        h[i] = (up + 1.0f) * (gate * spec_sigmoid(alpha * gate));
    }
}

/* Whether all n values are finite. */
static inline int all_finite(size_t n, const float *x)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t size = float_bits(x[i]) & 0x7FFFFFFFu;
        largest = size > largest ? size : largest;
    }
    return largest < 0x7F800000u;
}

/* Code one block of 32 values: whole numbers in [-q, q] as floats, and the scale.
   The values must be finite. */
static inline float code_block(const float *x, float q, float *codes)
{
    uint32_t largest = 0;
    for (int i = 0; i < CODING_BLOCK; i++) {
        uint32_t size = float_bits(x[i]) & 0x7FFFFFFFu;
        largest = size > largest ? size : largest;
    }
    float amax = bits_float(largest);
    if (amax < 0x1p-100f) {
        for (int i = 0; i < CODING_BLOCK; i++)
            codes[i] = 0.0f;
        return 0.0f;
    }
    float scale = amax / q, inverse = 1.0f / scale;
    for (int i = 0; i < CODING_BLOCK; i++)
        codes[i] = at_least(at_most(round_even(x[i] * inverse), q), -q);
    return scale;
}

/* Code a row of n values (a multiple of 32) with q = 127. */
static inline void code_row_i8(size_t n, const float *x, int8_t *codes, float *scales)
{
    float block[CODING_BLOCK];
    for (size_t b = 0; b < n / CODING_BLOCK; b++) {
        scales[b] = code_block(x + CODING_BLOCK * b, ACTIVATION_Q, block);
        for (int i = 0; i < CODING_BLOCK; i++)
            codes[CODING_BLOCK * b + i] = (int8_t)block[i];
    }
}

/* Code a row of n values (a multiple of 32) with q = 32767. */
static inline void code_row_i16(size_t n, const float *x, int16_t *codes, float *scales)
{
    float block[CODING_BLOCK];
    for (size_t b = 0; b < n / CODING_BLOCK; b++) {
        scales[b] = code_block(x + CODING_BLOCK * b, RESULT_Q, block);
        for (int i = 0; i < CODING_BLOCK; i++)
            codes[CODING_BLOCK * b + i] = (int16_t)block[i];
    }
}

/* What a reader of the coded row sees: fl(code * scale), in place. */
static inline void round_row(size_t n, float q, float *x)
{
    float block[CODING_BLOCK];
    for (size_t b = 0; b < n / CODING_BLOCK; b++) {
        float scale = code_block(x + CODING_BLOCK * b, q, block);
        for (int i = 0; i < CODING_BLOCK; i++)
            x[CODING_BLOCK * b + i] = block[i] * scale;
    }
}

#endif
