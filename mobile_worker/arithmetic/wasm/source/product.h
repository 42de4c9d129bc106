/* What a product is asked for: a matrix, rows of input, and where the result goes. */

#ifndef P2PMOE_PRODUCT_H
#define P2PMOE_PRODUCT_H

#include "../../c/formats.h"
#include "vector.h"

#define MAX_BATCH 64 /* rows of input in one pass over the matrix */

struct product {
    const uint8_t *weights;
    uint32_t n_rows, n_cols;
    const uint8_t *x; /* struct ready for integer formats, f32 for float formats */
    uint32_t n;    /* rows of input, at most MAX_BATCH */
    float *y;
    uint32_t y_stride; /* values from one row of y to the next */
};

#endif
