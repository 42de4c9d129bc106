/* Small pieces on vectors of 128 bits: sums across four rows, widening, gathering.

   All here is exact, but for products of floats that are written out. */

#ifndef P2PMOE_VECTOR_H
#define P2PMOE_VECTOR_H

#include <stdint.h>
#include <wasm_simd128.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NEVER_INLINE static __attribute__((noinline)) /* kept apart: fewer spills */

/* i32x4 of four sums: lane i is the sum of the four lanes of part[i]. */
ALWAYS_INLINE v128_t sum_each(const v128_t part[4])
{
    v128_t ab = wasm_i32x4_add(wasm_i32x4_shuffle(part[0], part[1], 0, 4, 1, 5),
                               wasm_i32x4_shuffle(part[0], part[1], 2, 6, 3, 7));
    v128_t cd = wasm_i32x4_add(wasm_i32x4_shuffle(part[2], part[3], 0, 4, 1, 5),
                               wasm_i32x4_shuffle(part[2], part[3], 2, 6, 3, 7));
    return wasm_i32x4_add(wasm_i64x2_shuffle(ab, cd, 0, 2),
                          wasm_i64x2_shuffle(ab, cd, 1, 3));
}

/* f32x4 of four binary16 in u32 lanes, exactly: 2^112 moves the exponent's bias, and
   subnormals with it, though those take a CPU longer. */
ALWAYS_INLINE v128_t widen_f16(v128_t h)
{
    v128_t bits = wasm_i32x4_shr(wasm_i32x4_shl(h, 16), 3);
    v128_t highest = wasm_i32x4_splat(0x0F800000);
    bits = wasm_v128_and(bits, wasm_i32x4_splat((int32_t)0x8FFFE000));
    v128_t is_no_number = wasm_i32x4_eq(wasm_v128_and(bits, highest), highest);
    return wasm_v128_or(wasm_f32x4_mul(bits, wasm_f32x4_splat(0x1p112f)),
                        wasm_v128_and(is_no_number, wasm_i32x4_splat(0x7F800000)));
}

/* The same, at one pace, for values that often are subnormal, as in the K formats. The
   bias is added to the exponent; the bit too much that a subnormal then has is
   subtracted as a float. */
ALWAYS_INLINE v128_t widen_small_f16(v128_t h)
{
    v128_t size = wasm_i32x4_shr(wasm_i32x4_shl(h, 17), 4);
    v128_t sign = wasm_i32x4_shl(wasm_u32x4_shr(h, 15), 31);
    size = wasm_v128_and(size, wasm_i32x4_splat(0x0FFFE000));
    v128_t is_small = wasm_i32x4_lt(size, wasm_i32x4_splat(1 << 23));
    v128_t is_no_number = wasm_i32x4_gt(size, wasm_i32x4_splat(0x0F7FFFFF));
    v128_t normal = wasm_i32x4_add(size, wasm_i32x4_splat(112 << 23));
    v128_t more = wasm_i32x4_add(normal, wasm_i32x4_splat(1 << 23));
    v128_t small = wasm_f32x4_sub(more, wasm_f32x4_splat(0x1p-14f));
    v128_t value = wasm_v128_bitselect(small, normal, is_small);
    v128_t all_ones = wasm_v128_and(is_no_number, wasm_i32x4_splat(0x7F800000));
    return wasm_v128_or(wasm_v128_or(value, all_ones), sign);
}

/* Four binary16 in u32 lanes: that at `at` in each of four rows, `step` bytes apart. */
ALWAYS_INLINE v128_t gather_f16(const uint8_t *at, uint32_t step)
{
    v128_t h = wasm_v128_load16_lane(at, wasm_i32x4_splat(0), 0);
    h = wasm_v128_load16_lane(at + step, h, 2);
    h = wasm_v128_load16_lane(at + 2 * step, h, 4);
    return wasm_v128_load16_lane(at + 3 * step, h, 6);
}

#endif
