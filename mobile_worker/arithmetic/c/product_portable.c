/* The products in plain C with the compiler's own vectors: 8 output rows side by side. */

#include <stdint.h>
#include <string.h>

#include "formats.h"

#define LANES 8
#define STORED_SIGN 0
#define PLAIN static inline __attribute__((always_inline))

typedef int32_t ints __attribute__((vector_size(32)));
typedef uint32_t unsigned_ints __attribute__((vector_size(32)));
typedef float floats __attribute__((vector_size(32)));

PLAIN ints splat(int32_t v) { return (ints){0} + v; }
PLAIN ints bits_and(ints a, ints b) { return a & b; }
PLAIN ints bits_or(ints a, ints b) { return a | b; }
PLAIN ints shift_right(ints v, int n) { return (ints)((unsigned_ints)v >> n); }
PLAIN ints shift_left(ints v, int n) { return (ints)((unsigned_ints)v << n); }
PLAIN ints stored(ints v) { return v; }
PLAIN floats f_splat(float v) { return (floats){v, v, v, v, v, v, v, v}; }
PLAIN floats f_add(floats a, floats b) { return a + b; }
PLAIN floats f_sub(floats a, floats b) { return a - b; }
PLAIN floats f_mul(floats a, floats b) { return a * b; }
PLAIN floats to_floats(ints v) { return __builtin_convertvector(v, floats); }

PLAIN floats f_load(const float *from)
{
    floats v;
    memcpy(&v, from, sizeof v);
    return v;
}

PLAIN void f_store(float *to, floats v) { memcpy(to, &v, sizeof v); }

PLAIN floats halves(ints v)
{
    floats wide;
    for (int lane = 0; lane < LANES; lane++)
        wide[lane] = f16_to_f32((uint16_t)(v[lane] & 0xFFFF));
    return wide;
}

PLAIN void widen_halves(const uint8_t *from, float *to)
{
    for (int i = 0; i < 8; i++)
        to[i] = f16_to_f32(load_u16(from + 2 * i));
}

PLAIN ints look_up(ints indices, const int8_t *table)
{
    uint8_t bytes[4 * LANES];
    memcpy(bytes, &indices, sizeof bytes);
    for (int i = 0; i < 4 * LANES; i++)
        bytes[i] = (uint8_t)table[bytes[i]];
    memcpy(&indices, bytes, sizeof bytes);
    return indices;
}

PLAIN void load_rows(const uint8_t *const *rows, size_t at, ints out[4])
{
    for (int k = 0; k < 4; k++)
        for (int lane = 0; lane < LANES; lane++)
            out[k][lane] = (int32_t)load_u32(rows[lane] + at + 4 * k);
}

PLAIN ints dot_any(ints sum, const ints t[4], const int8_t *x)
{
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 4; j++) {
            ints code = (ints)((unsigned_ints)t[k] << (24 - 8 * j)) >> 24;
            sum += code * x[4 * k + j];
        }
    return sum;
}

PLAIN ints dot_small(ints sum, const ints t[4], const int8_t *x)
{
    return dot_any(sum, t, x);
}

#include "product_body.h"

KERNEL_SET(kernel_portable, "portable");
