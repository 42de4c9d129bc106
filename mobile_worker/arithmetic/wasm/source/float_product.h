/* Products of float rows with F16, BF16 and F32 weights, in eight lanes.

   Specification 02, "Weights": lane[k % 8] sums products in ascending order, then
   ((l0+l1)+(l2+l3))+((l4+l5)+(l6+l7)). Some columns of a few rows of the matrix are
   widened at a time and used for all rows of a batch. */

#ifndef P2PMOE_FLOAT_PRODUCT_H
#define P2PMOE_FLOAT_PRODUCT_H

#include "product.h"

#define TOGETHER 2      /* rows of the matrix */
#define MAX_COLUMNS 256 /* widened at a time; a multiple of 8 */

static float widened[TOGETHER][MAX_COLUMNS];
static v128_t lanes[MAX_BATCH][TOGETHER][2]; /* of each row of input */

/* Widen n values (a multiple of 4) of each row, `step` bytes apart. */
NEVER_INLINE void widen_columns(int format, const uint8_t *weights, uint32_t step,
                                uint32_t n)
{
    for (int i = 0; i < TOGETHER; i++, weights += step)
        for (uint32_t k = 0; k < n; k += 4) {
            v128_t value;
            if (format == F32)
                value = wasm_v128_load(weights + 4 * k);
            else {
                v128_t h = wasm_u32x4_load16x4(weights + 2 * k);
                value = format == F16 ? widen_f16(h) : wasm_i32x4_shl(h, 16);
            }
            wasm_v128_store(widened[i] + k, value);
        }
}

/* Add n widened columns' products to the lanes of one row of input. */
NEVER_INLINE void add_columns(const float *x, uint32_t n, v128_t sums[TOGETHER][2])
{
    v128_t low[TOGETHER], high[TOGETHER];
#pragma clang loop unroll(full)
    for (int i = 0; i < TOGETHER; i++) {
        low[i] = sums[i][0];
        high[i] = sums[i][1];
    }
    for (uint32_t k = 0; k < n; k += 8) {
        v128_t x_low = wasm_v128_load(x + k), x_high = wasm_v128_load(x + k + 4);
#pragma clang loop unroll(full)
        for (int i = 0; i < TOGETHER; i++) {
            const float *w = widened[i] + k;
            low[i] = wasm_f32x4_add(low[i], wasm_f32x4_mul(wasm_v128_load(w), x_low));
            high[i] = wasm_f32x4_add(high[i],
                                     wasm_f32x4_mul(wasm_v128_load(w + 4), x_high));
        }
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < TOGETHER; i++) {
        sums[i][0] = low[i];
        sums[i][1] = high[i];
    }
}

ALWAYS_INLINE float fold_lanes(const v128_t sums[2])
{
    v128_t pairs =
        wasm_f32x4_add(wasm_i32x4_shuffle(sums[0], sums[1], 0, 2, 4, 6),
                       wasm_i32x4_shuffle(sums[0], sums[1], 1, 3, 5, 7));
    return (wasm_f32x4_extract_lane(pairs, 0) + wasm_f32x4_extract_lane(pairs, 1)) +
           (wasm_f32x4_extract_lane(pairs, 2) + wasm_f32x4_extract_lane(pairs, 3));
}

/* y = x times the matrix, at most MAX_BATCH rows. */
static void multiply_floats(int format, const struct product *p)
{
    uint32_t size = format == F32 ? 4 : 2;
    const float *x_rows = (const float *)p->x;
    const uint8_t *weights = p->weights;
    for (uint32_t r = 0, n_lanes; r < p->n_rows; r += n_lanes) {
        n_lanes = p->n_rows - r < TOGETHER ? 1 : TOGETHER;
        uint32_t step = n_lanes == TOGETHER ? size * p->n_cols : 0;
        __builtin_memset(lanes, 0, p->n * sizeof lanes[0]);
        for (uint32_t k = 0, n; k < p->n_cols; k += n) {
            n = p->n_cols - k < MAX_COLUMNS ? p->n_cols - k : MAX_COLUMNS;
            widen_columns(format, weights + size * k, step, n);
            const float *x = x_rows + k;
            for (uint32_t i = 0; i < p->n; i++, x += p->n_cols)
                add_columns(x, n, lanes[i]);
        }
        weights += n_lanes * size * p->n_cols;
        float *y = p->y + r;
        for (uint32_t i = 0; i < p->n; i++, y += p->y_stride)
            for (uint32_t j = 0; j < n_lanes; j++)
                y[j] = fold_lanes(lanes[i][j]);
    }
}

#endif
