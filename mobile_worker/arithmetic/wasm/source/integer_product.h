/* Products of coded rows with integer formats.

   Specification 02, "Weights". Four rows of the matrix at a time, one to a lane of the
   floats, so that each rounds in the specification's order; the integers inside are
   exact in any order. 32 columns of the four rows are taken apart once and used for all
   rows of a batch. Weights are read where they lie. */

#ifndef P2PMOE_INTEGER_PRODUCT_H
#define P2PMOE_INTEGER_PRODUCT_H

#include "product.h"
#include "recipe.h"
#include "rows.h"
#include "vector.h"

/* 32 columns of four rows. */
struct tile {
    v128_t codes[4][4]; /* of each row 32 x i16, or 32 x u8 in the first two */
    v128_t s[2], m[2];  /* f32x4 per 32 columns or per 16, a lane for each row */
};

static v128_t sums[MAX_BATCH]; /* f32x4 of each row of input, a lane for each row */
static struct tile any_tile;

/* acc + dot * (s * xscale): three roundings, for dot is a float exactly. */
ALWAYS_INLINE v128_t accumulate(v128_t acc, v128_t dot, v128_t s, const float *x_scale)
{
    v128_t scale = wasm_f32x4_mul(s, wasm_v128_load32_splat(x_scale));
    return wasm_f32x4_add(acc, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(dot), scale));
}

/* Take 32 columns of four rows apart: any format, into any_tile. */
NEVER_INLINE void take_any(const struct recipe *recipe, const uint8_t *unit,
                           uint32_t step, uint32_t g)
{
    for (uint32_t j = 0; j < 2; j++) {
        const uint8_t *row = unit;
        for (int i = 0; i < 4; i++, row += step) {
            v128_t codes = codes_of(recipe, row, g, j);
            any_tile.codes[i][2 * j] = wasm_i16x8_extend_low_i8x16(codes);
            any_tile.codes[i][2 * j + 1] = wasm_i16x8_extend_high_i8x16(codes);
        }
        if (j > recipe->is_16_wide)
            continue;
        uint32_t at = (g << recipe->is_16_wide) + j;
        any_tile.s[j] = factors_of(recipe, 0, unit, step, at);
        if (recipe->has_min)
            any_tile.m[j] = factors_of(recipe, 1, unit, step, at);
    }
}

/* The same of Q8_0. */
ALWAYS_INLINE void take_q8_0(const uint8_t *unit, uint32_t step, struct tile *tile)
{
    tile->s[0] = widen_f16(gather_f16(unit, step));
#pragma clang loop unroll(full)
    for (int i = 0; i < 4; i++, unit += step)
#pragma clang loop unroll(full)
        for (int j = 0; j < 4; j++)
            tile->codes[i][j] = wasm_i16x8_load8x8(unit + 2 + 8 * j);
}

/* The same of Q4_0; the codes are 0 to 15 here, 8 too much. */
ALWAYS_INLINE void take_q4_0(const uint8_t *unit, uint32_t step, struct tile *tile)
{
    tile->s[0] = widen_f16(gather_f16(unit, step));
#pragma clang loop unroll(full)
    for (int i = 0; i < 4; i++, unit += step) {
        v128_t both = wasm_v128_load(unit + 2), mask = wasm_i8x16_splat(15);
        v128_t low = wasm_v128_and(both, mask);
        v128_t high = wasm_v128_and(wasm_u16x8_shr(both, 4), mask);
#ifdef __wasm_relaxed_simd__
        tile->codes[i][0] = low;
        tile->codes[i][1] = high;
#else
        tile->codes[i][0] = wasm_u16x8_extend_low_u8x16(low);
        tile->codes[i][1] = wasm_u16x8_extend_high_u8x16(low);
        tile->codes[i][2] = wasm_u16x8_extend_low_u8x16(high);
        tile->codes[i][3] = wasm_u16x8_extend_high_u8x16(high);
#endif
    }
}

/* i32x4: products of n x 8 codes of a row of input with those of four rows. */
ALWAYS_INLINE v128_t dot_wide(int n, const int16_t *x, const v128_t *codes)
{
    v128_t part[4];
#pragma clang loop unroll(full)
    for (int i = 0; i < 4; i++, codes += 4) {
        part[i] = wasm_i32x4_dot_i16x8(wasm_v128_load(x), codes[0]);
#pragma clang loop unroll(full)
        for (int j = 1; j < n; j++) {
            v128_t eight = wasm_i32x4_dot_i16x8(wasm_v128_load(x + 8 * j), codes[j]);
            part[i] = wasm_i32x4_add(part[i], eight);
        }
    }
    return sum_each(part);
}

/* i32x4: products of 32 codes of a row of input with those of four rows of Q4_0. */
ALWAYS_INLINE v128_t dot_q4_0(const struct ready *x, const struct tile *tile)
{
#ifdef __wasm_relaxed_simd__
    /* Relaxed, but with one answer: the second operand is below 128, and two products,
       even four, are below 2^15 in size (15 * 127 * 4 = 7,620). */
    v128_t part[4];
#pragma clang loop unroll(full)
    for (int i = 0; i < 4; i++) {
        const v128_t *codes = tile->codes[i];
        v128_t low = wasm_i16x8_relaxed_dot_i8x16_i7x16(wasm_v128_load(x->narrow),
                                                        codes[0]);
        v128_t high = wasm_i16x8_relaxed_dot_i8x16_i7x16(
            wasm_v128_load(x->narrow + 16), codes[1]);
        part[i] = wasm_i32x4_dot_i16x8(wasm_i16x8_add(low, high), wasm_i16x8_splat(1));
    }
    v128_t dot = sum_each(part);
#else
    v128_t dot = dot_wide(4, x->wide, tile->codes[0]);
#endif
    return wasm_i32x4_sub(dot, wasm_i32x4_splat(8 * x->sum));
}

/* Add 32 columns' products to the sum of one row of input: any format. */
NEVER_INLINE v128_t add_any(const struct recipe *recipe, const struct ready *x,
                            v128_t acc)
{
    v128_t dot = wasm_i32x4_splat(0);
    int32_t sum = 0;
    for (int j = 0; j < 2; j++) {
        v128_t half = dot_wide(2, x->wide + 16 * j, any_tile.codes[0] + 2 * j);
        dot = wasm_i32x4_add(dot, half);
        sum += x->half[j];
        if (!recipe->is_16_wide && !j)
            continue;
        int at = recipe->is_16_wide & j;
        acc = accumulate(acc, dot, any_tile.s[at], &x->scale);
        if (recipe->has_min) /* adding -sum * (m * xscale) is subtracting it */
            acc = accumulate(acc, wasm_i32x4_splat(-sum), any_tile.m[at], &x->scale);
        dot = wasm_i32x4_splat(0);
        sum = 0;
    }
    return acc;
}

/* Add four rows of the matrix to the sums. The fast formats have loops of their own, so
   that what they take apart need not go through the memory. */
NEVER_INLINE void sum_q8_0(const struct product *p, const uint8_t *unit, uint32_t step)
{
    uint32_t n_blocks = p->n_cols / 32;
    const struct ready *first = (const struct ready *)p->x, *end = first + n_blocks;
    for (; first < end; first++, unit += 34) {
        struct tile tile;
        take_q8_0(unit, step, &tile);
        const struct ready *x = first;
        for (uint32_t i = 0; i < p->n; i++, x += n_blocks) {
            v128_t dot = dot_wide(4, x->wide, tile.codes[0]);
            sums[i] = accumulate(sums[i], dot, tile.s[0], &x->scale);
        }
    }
}

NEVER_INLINE void sum_q4_0(const struct product *p, const uint8_t *unit, uint32_t step)
{
    uint32_t n_blocks = p->n_cols / 32;
    const struct ready *first = (const struct ready *)p->x, *end = first + n_blocks;
    for (; first < end; first++, unit += 18) {
        struct tile tile;
        take_q4_0(unit, step, &tile);
        const struct ready *x = first;
        for (uint32_t i = 0; i < p->n; i++, x += n_blocks)
            sums[i] = accumulate(sums[i], dot_q4_0(x, &tile), tile.s[0], &x->scale);
    }
}

static void sum_any(const struct recipe *recipe, const struct product *p,
                    const uint8_t *unit, uint32_t step)
{
    uint32_t n_blocks = p->n_cols / 32;
    const struct ready *first = (const struct ready *)p->x, *end = first + n_blocks;
    for (; first < end; unit += recipe->bytes)
        for (uint32_t g = 0; g < recipe->groups; g++, first++) {
            take_any(recipe, unit, step, g);
            const struct ready *x = first;
            for (uint32_t i = 0; i < p->n; i++, x += n_blocks)
                sums[i] = add_any(recipe, x, sums[i]);
        }
}

/* y = x times the matrix, at most MAX_BATCH rows. The four rows that go together are a
   quarter of the matrix apart, so that each lane reads its quarter from end to end: there
   are no prefetches in WebAssembly, and the machine's own follow streams that go on. */
static void multiply_integers(const struct recipe *recipe, const struct product *p)
{
    uint32_t row_bytes = p->n_cols / 32 / recipe->groups * recipe->bytes;
    uint32_t quarter = p->n_rows / 4, apart = quarter;
    find_fields(recipe);
    for (uint32_t r = 0; r < p->n_rows; r++) {
        if (r == quarter) { /* the last rows go one by one, all lanes alike */
            r = 4 * quarter;
            apart = 0;
            if (r == p->n_rows)
                break;
        }
        const uint8_t *weights = p->weights + r * row_bytes;
        uint32_t step = apart * row_bytes;
        __builtin_memset(sums, 0, p->n * sizeof *sums);
        if (recipe->format == Q4_0)
            sum_q4_0(p, weights, step);
        else if (recipe->format == Q8_0)
            sum_q8_0(p, weights, step);
        else
            sum_any(recipe, p, weights, step);
        float *y = p->y + r;
        for (uint32_t i = 0; i < p->n; i++, y += p->y_stride) {
            wasm_v128_store32_lane(y, sums[i], 0);
            wasm_v128_store32_lane(y + apart, sums[i], 1);
            wasm_v128_store32_lane(y + 2 * apart, sums[i], 2);
            wasm_v128_store32_lane(y + 3 * apart, sums[i], 3);
        }
    }
}

#endif
