/* Dot products of queries with tiles of keys, for the units of rows_body.h.
 *
 * Keys lie dimension by dimension, so that a vector holds one dimension of consecutive
 * positions: the eight lanes of a dot product are eight running sums, each over every
 * eighth dimension. Two queries share the loads of keys, some more the keys of a lane
 * while these are in the nearest cache.
 */
#ifndef P2PMOE_ROWS_DOTS_H
#define P2PMOE_ROWS_DOTS_H

#include <string.h>

#include "rows_sums.h"

/* Values that are summed side by side; registers of a set hold some of them each. */
enum { BLOCK = 16 };
typedef float block __attribute__((vector_size(BLOCK * sizeof(float))));

static inline block load_block(const float *from)
{
    block values;
    memcpy(&values, from, sizeof values);
    return values;
}

static inline void store_block(float *to, block values)
{
    memcpy(to, &values, sizeof values);
}

enum { MOST_QUERIES = 8 }; /* that pass over a tile of keys together */

/* The same as below for 32 positions, whose sums stay in registers. */
static inline void lane_of_32(const float *query, size_t next, const float *keys,
                              size_t row, size_t steps, float *sum, float *other)
{
    block a0 = {0}, a1 = {0}, b0 = {0}, b1 = {0};
    for (size_t step = 0; step < steps; step++, query += LANES, keys += row) {
        const block k0 = load_block(keys), k1 = load_block(keys + BLOCK);
        const float q = query[0], r = query[next];
        a0 += q * k0, a1 += q * k1;
        b0 += r * k0, b1 += r * k1;
    }
    store_block(sum, a0), store_block(sum + BLOCK, a1);
    store_block(other, b0), store_block(other + BLOCK, b1);
}

/* sum[p] = the sum over steps ascending of query[8 step] * key[8 step][p]. */
static void lane_of_dots(const float *query, const float *keys, size_t stride,
                         size_t steps, size_t n, float *restrict sum)
{
    const size_t row = LANES * stride;
    size_t step = 0;
    for (size_t p = 0; p < n; p++)
        sum[p] = 0.0f;
    for (; step + 4 <= steps; step += 4, query += 4 * LANES, keys += 4 * row) {
        const float q0 = query[0], q1 = query[LANES];
        const float q2 = query[2 * LANES], q3 = query[3 * LANES];
        for (size_t p = 0; p < n; p++) {
            float s = sum[p] + q0 * keys[p];
            s += q1 * keys[row + p];
            s += q2 * keys[2 * row + p];
            sum[p] = s + q3 * keys[3 * row + p];
        }
    }
    for (; step < steps; step++, query += LANES, keys += row)
        for (size_t p = 0; p < n; p++)
            sum[p] += query[0] * keys[p];
}

/* The same for two queries, `next` values apart. */
static void lane_of_two_dots(const float *query, size_t next, const float *keys,
                             size_t stride, size_t steps, size_t n,
                             float *restrict sum, float *restrict other)
{
    const size_t row = LANES * stride;
    size_t step = 0;
    for (; n >= 2 * BLOCK; n -= 2 * BLOCK) {
        lane_of_32(query, next, keys, row, steps, sum, other);
        keys += 2 * BLOCK, sum += 2 * BLOCK, other += 2 * BLOCK;
    }
    for (size_t p = 0; p < n; p++)
        sum[p] = other[p] = 0.0f;
    for (; step + 4 <= steps; step += 4, query += 4 * LANES, keys += 4 * row) {
        const float *q = query + next;
        const float q0 = query[0], q1 = query[LANES];
        const float q2 = query[2 * LANES], q3 = query[3 * LANES];
        const float r0 = q[0], r1 = q[LANES], r2 = q[2 * LANES], r3 = q[3 * LANES];
        for (size_t p = 0; p < n; p++) {
            const float k0 = keys[p], k1 = keys[row + p];
            const float k2 = keys[2 * row + p], k3 = keys[3 * row + p];
            sum[p] = (((sum[p] + q0 * k0) + q1 * k1) + q2 * k2) + q3 * k3;
            other[p] = (((other[p] + r0 * k0) + r1 * k1) + r2 * k2) + r3 * k3;
        }
    }
    for (; step < steps; step++, query += LANES, keys += row)
        for (size_t p = 0; p < n; p++) {
            sum[p] += query[0] * keys[p];
            other[p] += query[next] * keys[p];
        }
}

static inline void fold_tile(float lane[LANES][TILE], size_t n, float *scores)
{
    for (size_t p = 0; p < n; p++)
        scores[p] = ((lane[0][p] + lane[1][p]) + (lane[2][p] + lane[3][p])) +
                    ((lane[4][p] + lane[5][p]) + (lane[6][p] + lane[7][p]));
}

/* Dot products of `n_queries` <= MOST_QUERIES queries that follow each other with
   `n` <= TILE keys, of which `room` >= n may be read; their scores lie `next` apart. */
static void dot_tile(const float *queries, size_t n_queries, const float *keys,
                     size_t stride, size_t head_dim, size_t n, size_t room,
                     float *scores, size_t next)
{
    float lane[MOST_QUERIES][LANES][TILE];
    const size_t whole = least(least(score_room(n), room), TILE);
    const size_t steps = head_dim / LANES;
    for (size_t l = 0; l < LANES; l++) {
        const float *query = queries + l, *own = keys + l * stride;
        size_t g = 0;
        for (; g + 2 <= n_queries; g += 2)
            lane_of_two_dots(query + g * head_dim, head_dim, own, stride, steps, whole,
                             lane[g][l], lane[g + 1][l]);
        if (g < n_queries)
            lane_of_dots(query + g * head_dim, own, stride, steps, whole, lane[g][l]);
    }
    for (size_t g = 0; g < n_queries; g++)
        fold_tile(lane[g], n, scores + g * next);
}

static void rows_dot_scores(const struct dot_scores *s)
{
    for (size_t kv = 0; kv < s->n_kv; kv++)
        for (size_t start = 0; start < s->n_keys; start += TILE) {
            const float *keys = s->keys + kv * s->head_dim * s->stride + start;
            const size_t n = least(TILE, s->n_keys - start);
            for (size_t i = 0; i < s->n; i++)
                for (size_t g = 0, n_queries; g < s->group; g += n_queries) {
                    const size_t at = (i * s->n_kv + kv) * s->group + g;
                    n_queries = least(s->group - g, MOST_QUERIES);
                    dot_tile(s->queries + at * s->head_dim, n_queries, keys, s->stride,
                             s->head_dim, n, s->stride - start,
                             s->out + at * s->n_keys + start, s->n_keys);
                }
        }
}

#endif
