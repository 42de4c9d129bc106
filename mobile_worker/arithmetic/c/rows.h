/* The backbone's own operations, row by row: what a unit of one instruction set offers.
 *
 * Specification 02, "The backbone's own operations", "Combine" and the router. Each row
 * is computed on its own, in the order that is written there, so results depend neither
 * on the batch nor on the set. The readable reference is numpy's, in p2pmoe/model; this
 * is the same arithmetic, and tests hold the two together bit for bit.
 *
 * All arrays are C-contiguous; sizes count elements. Nothing here checks a size: that is
 * rows_module.c's. Non-finite values pass through; a caller looks for them.
 */
#ifndef P2PMOE_ROWS_H
#define P2PMOE_ROWS_H

#include <stddef.h>
#include <stdint.h>

enum {
    LANES = 8,
    SCORE_STEP = 16, /* scores of one row are kept as whole steps of so many positions */
    TILE = 128,      /* positions that are passed over together */
};

struct rms_norm {
    const float *x;      /* [n_rows, n] */
    const float *weight; /* [n_weights, n]; row r takes weight r % n_weights */
    float *out;          /* [n_rows, n] */
    size_t n_rows, n_weights, n;
    float eps;
};

struct turn {
    float *heads;           /* [n, n_heads, head_dim]; turned in place */
    const float *cos, *sin; /* [n, half]; 2 * half <= head_dim */
    size_t n, n_heads, head_dim, half;
    int interleaved; /* pairs are 2 k and 2 k + 1, else k and k + half */
};

struct dot_scores {
    const float *queries; /* [n, n_kv, group, head_dim]; head_dim % 8 == 0 */
    const float *keys;    /* [n_kv, head_dim, stride] */
    float *out;           /* [n, n_kv, group, n_keys]; n_keys <= stride */
    size_t n, n_kv, group, head_dim, stride, n_keys;
};

struct attention {
    const float *queries; /* [n, n_kv, group, head_dim]; head_dim % 8 == 0 */
    const float *keys;    /* [n_kv, head_dim, stride]; stride >= first + n */
    const float *values;  /* [>= first + n, n_kv, value_dim] */
    const uint8_t *seen;  /* [n, n_kv, first + n], or NULL for all */
    const float *sinks;   /* [n_kv, group], or NULL */
    float *out;           /* [n, n_kv, group, value_dim] */
    float *scratch;       /* [rows_at_once, heads_at_once, room] */
    size_t n, n_kv, group, head_dim, value_dim, stride, first;
    size_t window; /* positions that a row sees, itself included; 0 for all */
    float scale, soft_cap; /* soft_cap 0 for none */
    size_t row_begin, row_end, head_begin, head_end; /* the part to compute, of */
    size_t rows_at_once, heads_at_once, room;        /* n and n_kv * group; each >= 1 */
};

struct lane_product {
    const float *weight; /* [n_rows, n_cols] */
    const float *x;      /* [n, n_cols] */
    float *out;          /* [n, n_rows] */
    size_t n, n_rows, n_cols;
};

/* As GGUF numbers them. */
enum score_function { SOFTMAX = 1, SIGMOID = 2, SOFTMAX_OF_CHOSEN = 3 };

struct choice {
    const float *logits; /* [n, n_expert] */
    const float *bias;   /* [n_expert], for choosing only, or NULL */
    float *scratch;      /* [3 * n_expert] */
    int64_t *experts;    /* [n, top_k], ascending; top_k <= n_expert */
    float *weights;      /* [n, top_k] */
    size_t n, n_expert, top_k;
    size_t n_groups, n_groups_used; /* n_groups divides n_expert; used <= n_groups */
    float scale;
    enum score_function function;
    int norm;
};

struct weighted_sum {
    const float *values;  /* [n, top_k, n_embd] */
    const float *weights; /* [n, top_k] */
    float *out;           /* [n, n_embd] */
    size_t n, top_k, n_embd;
};

struct rows_operations {
    void (*rms_norm)(const struct rms_norm *);
    void (*turn)(const struct turn *);
    void (*dot_scores)(const struct dot_scores *);
    void (*attend)(const struct attention *);
    void (*lane_product)(const struct lane_product *);
    void (*choose)(const struct choice *);
    void (*weighted_sum)(const struct weighted_sum *);
};

static inline size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static inline size_t score_room(size_t n_positions)
{
    return (n_positions + SCORE_STEP - 1) / SCORE_STEP * SCORE_STEP;
}

/* The `room` of an attention, enough for any rows of its part at once. */
static inline size_t attention_room(const struct attention *a)
{
    const size_t all = a->first + a->n, others = a->row_end - a->row_begin + TILE;
    if (!a->window || a->window >= all || others >= all - a->window)
        return score_room(all);
    return score_room(a->window + others);
}

extern const struct rows_operations rows_portable, rows_neon, rows_avx2, rows_avx512;

#endif
