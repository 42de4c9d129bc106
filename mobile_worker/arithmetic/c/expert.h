/* A whole expert: gate, up, activation, coding, down, and the coding of its results.

   Specification 02, "The expert". Independent of the instruction set: all arithmetic is
   the set's. Memory for the values in between is bounded by taking PORTION rows at a
   time; rows never influence each other, so that changes no byte. */

#ifndef P2PMOE_EXPERT_H
#define P2PMOE_EXPERT_H

#include "kernel.h"

#define PORTION 64

struct expert {
    struct matrix gate, up, down;
    int kind; /* enum activation */
    float alpha, limit;
};

/* How results leave: the profile's bytes, or what their reader makes of them. */
enum result { CODED_R32, CODED_R16, CODED_R8, VALUES_R32, VALUES_R16, VALUES_R8 };

enum outcome { DONE, NOT_FINITE, CODE_REFUSED, NO_MEMORY };

/* Bytes of one row of results of n_embd values. */
size_t result_row_bytes(enum result result, size_t n_embd);

/* Run rows of x (all for rows NULL) through an expert; `out` takes n_rows results. */
enum outcome run_expert(const struct kernel_set *set, const struct expert *expert,
                        const struct input *x, const int64_t *rows, size_t n_rows,
                        enum result result, uint8_t *out);

/* CODE_REFUSED for a code of -128, a negative or a non-finite scale; else DONE. */
enum outcome check_input(const struct input *x);

#endif
