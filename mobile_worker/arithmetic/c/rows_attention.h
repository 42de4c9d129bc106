/* Attention over a KV cache, for the units of rows_body.h.
 *
 * Specification 02 and decision 17; p2pmoe/model/attention.py writes the order down.
 * Values lie position by position, so that a vector holds consecutive dimensions of one
 * position. Positions go by tiles that stay in a near cache while all rows and queries of
 * a KV head pass over them; a tile that a row does not see is passed over. Of scores,
 * only those of the rows and heads at hand are kept, from the first tile that one of
 * them sees on: [rows_at_once, heads_at_once, room].
 */
#ifndef P2PMOE_ROWS_ATTENTION_H
#define P2PMOE_ROWS_ATTENTION_H

#include "rows_dots.h"

/* Rows begin..end with queries g_begin..g_end of one KV head. */
struct attention_block {
    const struct attention *a;
    size_t begin, end, kv, g_begin, g_end;
    size_t base; /* the position whose score stands first, whole tiles */
};

/* What of a tile a row sees: positions low..n of it, and `any` if its mask leaves one. */
struct tile_part {
    size_t low, n;
    int any;
};

static inline size_t first_seen(const struct attention *a, size_t i)
{
    const size_t n_seen = a->first + i + 1;
    return a->window && n_seen > a->window ? n_seen - a->window : 0;
}

static inline size_t first_tile(const struct attention *a, size_t i)
{
    return first_seen(a, i) / TILE * TILE;
}

static inline const uint8_t *seen_row(const struct attention *a, size_t i, size_t kv)
{
    return a->seen ? a->seen + (i * a->n_kv + kv) * (a->first + a->n) : NULL;
}

static int sees_any(const uint8_t *seen, size_t n)
{
    uint8_t any = 0;
    if (!seen)
        return 1;
    for (size_t p = 0; p < n; p++)
        any |= seen[p];
    return any;
}

/* n is 0 where the tile has no scores: beyond the row, or before what it sees. */
static struct tile_part part_of(const struct attention_block *b, size_t i, size_t start)
{
    const struct attention *a = b->a;
    const size_t low = first_seen(a, i), n_seen = a->first + i + 1;
    const uint8_t *seen = seen_row(a, i, b->kv);
    struct tile_part part = {0, 0, 0};
    if (start >= n_seen || start < first_tile(a, i))
        return part;
    part.n = least(TILE, n_seen - start);
    part.low = low > start ? low - start : 0;
    part.any = sees_any(seen ? seen + start + part.low : NULL, part.n - part.low);
    return part;
}

/* The scores of row `i` with query g, from `base` on. */
static inline float *scores_of(const struct attention_block *b, size_t i, size_t g)
{
    const struct attention *a = b->a;
    return a->scratch + ((i - b->begin) * a->heads_at_once + (g - b->g_begin)) * a->room;
}

static inline float *result_of(const struct attention_block *b, size_t i, size_t g)
{
    const struct attention *a = b->a;
    return a->out + ((i * a->n_kv + b->kv) * a->group + g) * a->value_dim;
}

/* Dot products of one row's queries with a tile. */
static void dot_row(const struct attention_block *b, size_t i, size_t start, size_t n)
{
    const struct attention *a = b->a;
    const float *keys = a->keys + b->kv * a->head_dim * a->stride + start;
    const float *query = a->queries + (i * a->n_kv + b->kv) * a->group * a->head_dim;
    const size_t room = a->stride - start, dim = a->head_dim, at = start - b->base;
    for (size_t g = b->g_begin, n_queries; g < b->g_end; g += n_queries) {
        n_queries = least(b->g_end - g, MOST_QUERIES);
        dot_tile(query + g * dim, n_queries, keys, a->stride, dim, n, room,
                 scores_of(b, i, g) + at, a->room);
    }
}

/* Scores of one row's queries with a tile; -inf where nothing is seen. */
static void score_row(const struct attention_block *b, size_t i, size_t start)
{
    const struct attention *a = b->a;
    const struct tile_part part = part_of(b, i, start);
    const uint8_t *seen = seen_row(a, i, b->kv);
    if (part.any)
        dot_row(b, i, start, part.n);
    for (size_t g = b->g_begin; part.n && g < b->g_end; g++) {
        float *own = scores_of(b, i, g) + (start - b->base);
        if (part.any)
            for (size_t p = 0; p < part.n; p++)
                own[p] *= a->scale;
        if (part.any && a->soft_cap != 0.0f)
            soft_cap(own, part.n, a->soft_cap);
        for (size_t p = 0; p < part.n && (seen || !part.any); p++)
            own[p] = part.any && seen[start + p] ? own[p] : -INFINITY;
    }
}

/* The same as below for 32 dimensions, whose sums stay in registers. */
static inline void add_32_weighted(const float *weights, size_t next, const float *values,
                                   size_t stride, size_t n, float *total, float *other)
{
    block a0 = load_block(total), a1 = load_block(total + BLOCK);
    block b0 = load_block(other), b1 = load_block(other + BLOCK);
    for (size_t p = 0; p < n; p++, values += stride) {
        const block v0 = load_block(values), v1 = load_block(values + BLOCK);
        const float w = weights[p], x = weights[next + p];
        a0 += w * v0, a1 += w * v1;
        b0 += x * v0, b1 += x * v1;
    }
    store_block(total, a0), store_block(total + BLOCK, a1);
    store_block(other, b0), store_block(other + BLOCK, b1);
}

/* total[d] += weight[p] * value[p][d] for p ascending. */
static void add_weighted(const float *weights, const float *values, size_t stride,
                         size_t n, size_t dim, float *restrict total)
{
    size_t p = 0;
    for (; p + 4 <= n; p += 4, values += 4 * stride) {
        const float w0 = weights[p], w1 = weights[p + 1];
        const float w2 = weights[p + 2], w3 = weights[p + 3];
        for (size_t d = 0; d < dim; d++) {
            float t = total[d] + w0 * values[d];
            t += w1 * values[stride + d];
            t += w2 * values[2 * stride + d];
            total[d] = t + w3 * values[3 * stride + d];
        }
    }
    for (; p < n; p++, values += stride)
        for (size_t d = 0; d < dim; d++)
            total[d] += weights[p] * values[d];
}

/* The same for two sums that follow each other; their weights are `next` apart. */
static void add_two_weighted(const float *weights, size_t next, const float *values,
                             size_t stride, size_t n, size_t dim, float *restrict total,
                             float *restrict other)
{
    size_t p = 0;
    for (; dim >= 2 * BLOCK; dim -= 2 * BLOCK) {
        add_32_weighted(weights, next, values, stride, n, total, other);
        values += 2 * BLOCK, total += 2 * BLOCK, other += 2 * BLOCK;
    }
    for (; dim && p + 4 <= n; p += 4, values += 4 * stride) {
        const float *w = weights + p, *x = w + next;
        const float w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
        const float x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
        for (size_t d = 0; d < dim; d++) {
            const float v0 = values[d], v1 = values[stride + d];
            const float v2 = values[2 * stride + d], v3 = values[3 * stride + d];
            total[d] = (((total[d] + w0 * v0) + w1 * v1) + w2 * v2) + w3 * v3;
            other[d] = (((other[d] + x0 * v0) + x1 * v1) + x2 * v2) + x3 * v3;
        }
    }
    for (; dim && p < n; p++, values += stride)
        for (size_t d = 0; d < dim; d++) {
            total[d] += weights[p] * values[d];
            other[d] += weights[next + p] * values[d];
        }
}

/* Add a tile's values to one row's results; a tile of zero weights changes none. */
static void mix_row(const struct attention_block *b, size_t i, size_t start)
{
    const struct attention *a = b->a;
    const struct tile_part part = part_of(b, i, start);
    const size_t stride = a->n_kv * a->value_dim, at = start + part.low;
    const float *values = a->values + at * stride + b->kv * a->value_dim;
    const size_t n = part.n - part.low, dim = a->value_dim;
    size_t g = b->g_begin;
    if (!part.any)
        return;
    for (; g + 2 <= b->g_end; g += 2)
        add_two_weighted(scores_of(b, i, g) + (at - b->base), a->room, values, stride, n,
                         dim, result_of(b, i, g), result_of(b, i, g + 1));
    for (; g < b->g_end; g++)
        add_weighted(scores_of(b, i, g) + (at - b->base), values, stride, n, dim,
                     result_of(b, i, g));
}

/* Scores of one row's queries become weights, its results 0. */
static void weigh_row(const struct attention_block *b, size_t i)
{
    const struct attention *a = b->a;
    const size_t tile = first_tile(a, i), n = a->first + i + 1 - tile;
    const uint8_t *seen = seen_row(a, i, b->kv);
    for (size_t g = b->g_begin; g < b->g_end; g++) {
        float *out = result_of(b, i, g);
        softmax(scores_of(b, i, g) + (tile - b->base), first_seen(a, i) - tile, n,
                seen ? seen + tile : NULL,
                a->sinks ? a->sinks + b->kv * a->group + g : NULL);
        for (size_t d = 0; d < a->value_dim; d++)
            out[d] = 0.0f;
    }
}

static void attend_block(const struct attention_block *b)
{
    const size_t n_positions = b->a->first + b->end;
    for (size_t start = b->base; start < n_positions; start += TILE)
        for (size_t i = b->begin; i < b->end; i++)
            score_row(b, i, start);
    for (size_t i = b->begin; i < b->end; i++)
        weigh_row(b, i);
    for (size_t start = b->base; start < n_positions; start += TILE)
        for (size_t i = b->begin; i < b->end; i++)
            mix_row(b, i, start);
}

static void rows_attend(const struct attention *a)
{
    struct attention_block b = {.a = a};
    for (b.begin = a->row_begin; b.begin < a->row_end; b.begin = b.end) {
        b.end = b.begin + least(a->row_end - b.begin, a->rows_at_once);
        b.base = first_tile(a, b.begin);
        for (size_t head = a->head_begin, end; head < a->head_end; head = end) {
            b.kv = head / a->group, b.g_begin = head % a->group;
            end = head + least(a->heads_at_once,
                               least(a->group - b.g_begin, a->head_end - head));
            b.g_end = b.g_begin + (end - head);
            attend_block(&b);
        }
    }
}

#endif
