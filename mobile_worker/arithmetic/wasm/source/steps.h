/* The steps that `run` takes, as they lie in memory: 40 bytes each, op first.

   docs/reference/wasm-kernels.md is the reference for callers. Addresses and counts are
   u32, as all pointers of wasm32 are. */

#ifndef P2PMOE_STEPS_H
#define P2PMOE_STEPS_H

#include <stdint.h>

#include "rows.h"

enum op { PREPARE = 1, MULTIPLY = 2, ADD_BIAS = 3, ACTIVATE = 4, CODE = 5, CHECK = 6 };

enum status {
    OK = 0, STEP_UNKNOWN = 1, FORMAT_UNSUPPORTED = 2, SHAPE_WRONG = 3, CODE_REFUSED = 4,
    NON_FINITE = 5
};

union step {
    uint32_t op;
    struct { /* coded rows, as results in profile r8 lie, are made ready for products */
        uint32_t op;
        const uint8_t *coded;
        uint32_t n, n_cols;
        struct ready *out; /* [n, n_cols / 32] */
    } prepare;
    struct { /* y = x times the matrix */
        uint32_t op;
        int32_t format;
        const uint8_t *weights;
        uint32_t n_rows, n_cols;
        const uint8_t *x; /* ready rows for integer formats, f32 for float formats */
        uint32_t n;
        float *y;
        uint32_t y_stride; /* values from one row of y to the next */
    } multiply;
    struct {
        uint32_t op;
        const float *bias; /* [n_rows] */
        uint32_t n_rows;
        float *y;
        uint32_t n, y_stride;
    } add_bias;
    struct {
        uint32_t op, kind;
        float alpha, limit;
        const float *g, *u;
        uint32_t n;
        float *h;
    } activate;
    struct {
        uint32_t op;
        const float *x;
        uint32_t n, n_cols, q; /* q 127 or 32767 */
        uint8_t *coded;        /* of each row the codes, then the scales */
    } code;
    struct {
        uint32_t op;
        const float *x;
        uint32_t n;
    } check;
    uint32_t words[10];
};

#endif
