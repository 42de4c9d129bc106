/* Attention over a KV cache, for the units of rows_body.h.
 *
 * Keys lie dimension by dimension, so that a vector holds one dimension of consecutive
 * positions: the eight lanes of a dot product are eight running sums, each over every
 * eighth dimension. Values lie position by position, so that a vector holds consecutive
 * dimensions of one position. Positions go by tiles that stay in the nearest cache while
 * all rows and queries of a KV head pass over them. Of scores, only those of the rows at
 * hand are kept: [rows_at_once, group, first + n].
 */
#ifndef P2PMOE_ROWS_ATTENTION_H
#define P2PMOE_ROWS_ATTENTION_H

#include "rows_sums.h"

enum { TILE = 128 }; /* positions */

static inline size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
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

/* Dot products of a query with `n` <= TILE keys; `room` >= n of them may be read. */
static void dot_tile(const float *query, const float *keys, size_t stride,
                     size_t head_dim, size_t n, size_t room, float *scores)
{
    float lane[LANES][TILE];
    const size_t whole = least(least(score_room(n), room), TILE);
    for (size_t l = 0; l < LANES; l++)
        lane_of_dots(query + l, keys + l * stride, stride, head_dim / LANES, whole, lane[l]);
    for (size_t p = 0; p < n; p++)
        scores[p] = ((lane[0][p] + lane[1][p]) + (lane[2][p] + lane[3][p])) +
                    ((lane[4][p] + lane[5][p]) + (lane[6][p] + lane[7][p]));
}

static void rows_dot_scores(const struct dot_scores *s)
{
    for (size_t kv = 0; kv < s->n_kv; kv++)
        for (size_t start = 0; start < s->n_keys; start += TILE) {
            const float *keys = s->keys + kv * s->head_dim * s->stride + start;
            const size_t n = least(TILE, s->n_keys - start);
            for (size_t i = 0; i < s->n * s->group; i++) {
                const size_t at = (i / s->group * s->n_kv + kv) * s->group + i % s->group;
                dot_tile(s->queries + at * s->head_dim, keys, s->stride, s->head_dim, n,
                         s->stride - start, s->out + at * s->n_keys + start);
            }
        }
}

/* What of a tile row `i` may see at all: positions up to its own. */
static inline size_t causal_part(const struct attention *a, size_t i, size_t start)
{
    const size_t n_seen = a->first + i + 1;
    return n_seen > start ? least(TILE, n_seen - start) : 0;
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

/* Scores of one row's queries with a tile; -inf where nothing is seen. */
static void score_row(const struct attention *a, size_t i, size_t kv, size_t start,
                      float *scores)
{
    const size_t n = causal_part(a, i, start);
    const size_t room = score_room(a->first + a->n);
    const uint8_t *seen = seen_row(a, i, kv);
    const float *keys = a->keys + kv * a->head_dim * a->stride + start;
    const float *query = a->queries + (i * a->n_kv + kv) * a->group * a->head_dim;
    const int any = n && sees_any(seen ? seen + start : NULL, n);
    for (size_t g = 0; g < a->group; g++, query += a->head_dim) {
        float *own = scores + g * room + start;
        if (any)
            dot_tile(query, keys, a->stride, a->head_dim, n, a->stride - start, own);
        for (size_t p = 0; p < n; p++)
            own[p] = any && (!seen || seen[start + p]) ? own[p] * a->scale : -INFINITY;
    }
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

/* Add a tile's values to one row's results; a tile of zero weights changes none. */
static void mix_row(const struct attention *a, size_t i, size_t kv, size_t start,
                    const float *weights)
{
    const size_t n = causal_part(a, i, start);
    const size_t room = score_room(a->first + a->n);
    const size_t stride = a->n_kv * a->value_dim;
    const float *values = a->values + start * stride + kv * a->value_dim;
    const uint8_t *seen = seen_row(a, i, kv);
    float *out = a->out + (i * a->n_kv + kv) * a->group * a->value_dim;
    if (!n || !sees_any(seen ? seen + start : NULL, n))
        return;
    for (size_t g = 0; g < a->group; g++)
        add_weighted(weights + g * room + start, values, stride, n, a->value_dim,
                     out + g * a->value_dim);
}

/* Rows begin..end with one KV head. */
static void attend_block(const struct attention *a, size_t kv, size_t begin, size_t end)
{
    const size_t per_row = a->group * score_room(a->first + a->n);
    const size_t n_positions = a->first + end;
    for (size_t start = 0; start < n_positions; start += TILE)
        for (size_t i = begin; i < end; i++)
            score_row(a, i, kv, start, a->scratch + (i - begin) * per_row);
    for (size_t i = begin; i < end; i++) {
        float *out = a->out + (i * a->n_kv + kv) * a->group * a->value_dim;
        float *scores = a->scratch + (i - begin) * per_row;
        for (size_t d = 0; d < a->group * a->value_dim; d++)
            out[d] = 0.0f;
        for (size_t g = 0; g < a->group; g++)
            softmax(scores + g * (per_row / a->group), a->first + i + 1, seen_row(a, i, kv));
    }
    for (size_t start = 0; start < n_positions; start += TILE)
        for (size_t i = begin; i < end; i++)
            mix_row(a, i, kv, start, a->scratch + (i - begin) * per_row);
}

static void rows_attend(const struct attention *a)
{
    for (size_t begin = a->row_begin; begin < a->row_end; begin += a->rows_at_once)
        for (size_t kv = a->kv_begin; kv < a->kv_end; kv++)
            attend_block(a, kv, begin, least(a->row_end, begin + a->rows_at_once));
}

#endif
