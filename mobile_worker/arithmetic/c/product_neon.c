/* The products on aarch64 with the dot product instructions: 4 output rows at once. */

#if defined(__aarch64__)
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define LANES 4
#define STORED_SIGN 0
#define UNSIGNED_BYTES 0
#define NEON static inline __attribute__((always_inline))

typedef int32x4_t ints;
typedef float32x4_t floats;

NEON ints splat(int32_t v) { return vdupq_n_s32(v); }
NEON ints bits_and(ints a, ints b) { return vandq_s32(a, b); }
NEON ints bits_or(ints a, ints b) { return vorrq_s32(a, b); }
NEON ints stored(ints v) { return v; }
NEON floats f_splat(float v) { return vdupq_n_f32(v); }
NEON floats f_add(floats a, floats b) { return vaddq_f32(a, b); }
NEON floats f_sub(floats a, floats b) { return vsubq_f32(a, b); }
NEON floats f_mul(floats a, floats b) { return vmulq_f32(a, b); }
NEON floats f_load(const float *from) { return vld1q_f32(from); }
NEON void f_store(float *to, floats v) { vst1q_f32(to, v); }
NEON floats to_floats(ints v) { return vcvtq_f32_s32(v); }

NEON ints shift_right(ints v, int n)
{
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(v), splat(-n)));
}

NEON ints shift_right_signed(ints v, int n) { return vshlq_s32(v, splat(-n)); }

NEON ints shift_left(ints v, int n) { return vshlq_s32(v, splat(n)); }

NEON floats halves(ints v)
{
    uint16x4_t low = vmovn_u32(vreinterpretq_u32_s32(v));
    return vcvt_f32_f16(vreinterpret_f16_u16(low));
}

NEON void widen_halves(const uint8_t *from, float *to)
{
    float16x8_t both = vreinterpretq_f16_u8(vld1q_u8(from));
    vst1q_f32(to, vcvt_f32_f16(vget_low_f16(both)));
    vst1q_f32(to + 4, vcvt_f32_f16(vget_high_f16(both)));
}

NEON ints look_up(ints indices, const int8_t *table)
{
    return vreinterpretq_s32_s8(vqtbl1q_s8(vld1q_s8(table), vreinterpretq_u8_s32(indices)));
}

NEON int32x4_t sixteen(const uint8_t *from) { return vreinterpretq_s32_u8(vld1q_u8(from)); }

NEON void load_rows(const uint8_t *row, size_t stride, ints out[4])
{
    int32x4_t a = sixteen(row), b = sixteen(row + stride);
    int32x4_t c = sixteen(row + 2 * stride), d = sixteen(row + 3 * stride);
    int64x2_t ab_low = vreinterpretq_s64_s32(vzip1q_s32(a, b));
    int64x2_t ab_high = vreinterpretq_s64_s32(vzip2q_s32(a, b));
    int64x2_t cd_low = vreinterpretq_s64_s32(vzip1q_s32(c, d));
    int64x2_t cd_high = vreinterpretq_s64_s32(vzip2q_s32(c, d));
    out[0] = vreinterpretq_s32_s64(vzip1q_s64(ab_low, cd_low));
    out[1] = vreinterpretq_s32_s64(vzip2q_s64(ab_low, cd_low));
    out[2] = vreinterpretq_s32_s64(vzip1q_s64(ab_high, cd_high));
    out[3] = vreinterpretq_s32_s64(vzip2q_s64(ab_high, cd_high));
}

NEON ints dot_any(ints sum, const ints t[4], const int8_t *x)
{
    int8x16_t codes = vld1q_s8(x);
    sum = vdotq_laneq_s32(sum, vreinterpretq_s8_s32(t[0]), codes, 0);
    sum = vdotq_laneq_s32(sum, vreinterpretq_s8_s32(t[1]), codes, 1);
    sum = vdotq_laneq_s32(sum, vreinterpretq_s8_s32(t[2]), codes, 2);
    return vdotq_laneq_s32(sum, vreinterpretq_s8_s32(t[3]), codes, 3);
}

NEON ints dot_small(ints sum, const ints t[4], const int8_t *x)
{
    return dot_any(sum, t, x);
}

#include "product_body.h"
#include "set_body.h"

KERNEL_SET(kernel_neon, "neon");

#ifdef __clang__
#pragma clang attribute pop
#endif
#else
typedef int not_aarch64;
#endif
