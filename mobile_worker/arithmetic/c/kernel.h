/* The products and experts of specification 02, one implementation per instruction set.

   All implementations return the same bytes. Rows never influence each other. Buffers
   are checked by the caller (kernel_module.c, or the test driver): lengths fit the shapes,
   activation codes are never -128, scales are finite and not negative. */

#ifndef P2PMOE_KERNEL_H
#define P2PMOE_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

/* n_rows x n_cols weights in a format's own bytes, read in place. */
struct matrix {
    int format;
    size_t n_rows, n_cols;
    const uint8_t *raw;
    const float *bias; /* n_rows values added last, or NULL */
};

/* Rows of input; coded for integer formats, floats for float formats. */
struct input {
    size_t n, n_cols;
    const int8_t *codes;   /* [n, n_cols] or NULL */
    const float *scales;   /* [n, n_cols / 32] */
    const float *floats;   /* [n, n_cols] or NULL */
    const int32_t *sums;   /* [n, n_cols / 16]: sums of codes, see code_sums */
};

struct kernel_set {
    const char *name;
    /* out[i * stride + r] = row i of x times row r of the matrix, plus its bias */
    void (*product)(const struct matrix *w, const struct input *x, float *out,
                    size_t stride);
    /* sums of 16 codes each, for n_codes codes (a multiple of 32) */
    void (*code_sums)(size_t n_codes, const int8_t *codes, int32_t *sums);
    /* h = activation(g, u) over n values; h may be g */
    void (*activate)(int kind, float alpha, float limit, size_t n, const float *g,
                     const float *u, float *h);
    int (*finite)(size_t n, const float *x);
    void (*code_i8)(size_t n, const float *x, int8_t *codes, float *scales);
    void (*code_i16)(size_t n, const float *x, int16_t *codes, float *scales);
    void (*round_values)(size_t n, float q, float *x);
};

extern const struct kernel_set kernel_avx512, kernel_avx2, kernel_neon, kernel_portable;

#endif
