/* A kernel set around `integer_product`: float formats, and what is element-wise.

   Included last by each product_SET.c, which has defined before

     integer_product(format, matrix, input, out, stride), for the formats of formats.h
     widen_halves(from, to)    8 f16 as floats

   The compiler vectorises these loops for the instruction set of the file; each
   operation is one rounding, so no vector width changes a byte. */

#include <string.h>

#include "elementary.h"
#include "kernel.h"

#define FLOAT_ROWS 8

typedef float lanes8 __attribute__((vector_size(32)));

INLINE lanes8 weights8(int format, const uint8_t *at)
{
    lanes8 values;
    if (format == F32)
        memcpy(&values, at, sizeof values);
    else if (format == F16)
        widen_halves(at, (float *)&values);
    else
        for (int i = 0; i < 8; i++)
            values[i] = bf16_to_f32(load_u16(at + 2 * i));
    return values;
}

/* Eight lanes by absolute index, then pairwise. */
INLINE void float_product(int format, const struct matrix *w, const struct input *x,
                          float *out, size_t stride)
{
    size_t size = format == F32 ? 4 : 2, row_bytes = w->n_cols * size;
    for (size_t first = 0; first < w->n_rows; first += FLOAT_ROWS) {
        size_t n = w->n_rows - first < FLOAT_ROWS ? w->n_rows - first : FLOAT_ROWS;
        const uint8_t *rows[FLOAT_ROWS];
        for (size_t r = 0; r < FLOAT_ROWS; r++)
            rows[r] = w->raw + (first + (r < n ? r : n - 1)) * row_bytes;
        for (size_t i = 0; i < x->n; i++) {
            lanes8 acc[FLOAT_ROWS] = {{0.0f}};
            for (size_t col = 0; col < w->n_cols; col += 8) {
                lanes8 values;
                memcpy(&values, x->floats + i * x->n_cols + col, sizeof values);
                for (int r = 0; r < FLOAT_ROWS; r++)
                    acc[r] += weights8(format, rows[r] + col * size) * values;
            }
            for (size_t r = 0; r < n; r++) {
                lanes8 l = acc[r];
                float sum = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
                out[i * stride + first + r] = w->bias ? sum + w->bias[first + r] : sum;
            }
        }
    }
}

static void product(const struct matrix *w, const struct input *x, float *out,
                    size_t stride)
{
    switch (w->format) {
    case F32:    float_product(F32, w, x, out, stride); break;
    case F16:    float_product(F16, w, x, out, stride); break;
    case BF16:   float_product(BF16, w, x, out, stride); break;
    case Q4_0:   integer_product(Q4_0, w, x, out, stride); break;
    case Q4_1:   integer_product(Q4_1, w, x, out, stride); break;
    case Q5_0:   integer_product(Q5_0, w, x, out, stride); break;
    case Q5_1:   integer_product(Q5_1, w, x, out, stride); break;
    case Q8_0:   integer_product(Q8_0, w, x, out, stride); break;
    case Q2_K:   integer_product(Q2_K, w, x, out, stride); break;
    case Q3_K:   integer_product(Q3_K, w, x, out, stride); break;
    case Q4_K:   integer_product(Q4_K, w, x, out, stride); break;
    case Q5_K:   integer_product(Q5_K, w, x, out, stride); break;
    case Q6_K:   integer_product(Q6_K, w, x, out, stride); break;
    case IQ4_NL: integer_product(IQ4_NL, w, x, out, stride); break;
    case IQ4_XS: integer_product(IQ4_XS, w, x, out, stride); break;
    case MXFP4:  integer_product(MXFP4, w, x, out, stride); break;
    case NVFP4:  integer_product(NVFP4, w, x, out, stride); break;
    default:     break;
    }
}

static void code_sums(size_t n_codes, const int8_t *codes, int32_t *sums)
{
    for (size_t b = 0; b < n_codes / 16; b++) {
        int32_t sum = 0;
        for (int i = 0; i < 16; i++)
            sum += codes[16 * b + i];
        sums[b] = sum;
    }
}

static void activate(int kind, float alpha, float limit, size_t n, const float *g,
                     const float *u, float *h)
{
    if (kind == SWIGLU_OAI)
        swiglu_oai(n, alpha, limit, g, u, h);
    else
        swiglu(n, g, u, h);
}

static int finite(size_t n, const float *x) { return all_finite(n, x); }

static void code_i8(size_t n, const float *x, int8_t *codes, float *scales)
{
    code_row_i8(n, x, codes, scales);
}

static void code_i16(size_t n, const float *x, int16_t *codes, float *scales)
{
    code_row_i16(n, x, codes, scales);
}

static void round_values(size_t n, float q, float *x) { round_row(n, q, x); }

#define KERNEL_SET(identifier, set_name)                                              \
    const struct kernel_set identifier = {.name = set_name,                           \
                                          .product = product,                         \
                                          .code_sums = code_sums,                     \
                                          .activate = activate,                       \
                                          .finite = finite,                           \
                                          .code_i8 = code_i8,                         \
                                          .code_i16 = code_i16,                       \
                                          .round_values = round_values}
