/* Coded rows made ready for products: each code as i16 and i8, and sums of codes. */

#ifndef P2PMOE_ROWS_H
#define P2PMOE_ROWS_H

#include "../../c/formats.h"

/* 32 values, 112 bytes. A row is n_cols / 32 of them, and rows follow each other. */
struct ready {
    int16_t wide[32];
    int8_t narrow[32];
    float scale;
    int32_t sum;     /* of all codes */
    int32_t half[2]; /* of the first 16 and of the last */
};

#endif
