/* The operations of rows.h for one instruction set: plain loops, compiled once a set.
 *
 * A unit sets its target, defines ROWS_TABLE as the name of its table and includes this.
 * The order of every sum is the specification's; a vector's elements are output elements,
 * positions, or the eight lanes.
 */
#include "rows_attention.h"

static void rows_rms_norm(const struct rms_norm *s)
{
    for (size_t r = 0; r < s->n_rows; r++) {
        const float *x = s->x + r * s->n;
        const float *weight = s->weight + r % s->n_weights * s->n;
        float *out = s->out + r * s->n;
        const float mean = sum_of_squares(x, s->n) / (float)s->n;
        const float inverse = 1.0f / sqrtf(mean + s->eps);
        for (size_t k = 0; k < s->n; k++)
            out[k] = x[k] * inverse * weight[k];
    }
}

static void turn_head(float *restrict left, float *restrict right, const float *cos,
                      const float *sin, size_t half)
{
    for (size_t k = 0; k < half; k++) {
        const float l = left[k], r = right[k];
        left[k] = l * cos[k] - r * sin[k];
        right[k] = r * cos[k] + l * sin[k];
    }
}

static void rows_turn(const struct turn *s)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t h = 0; h < s->n_heads; h++) {
            float *head = s->heads + (i * s->n_heads + h) * s->head_dim;
            turn_head(head, head + s->half, s->cos + i * s->half, s->sin + i * s->half,
                      s->half);
        }
}

/* One row with four rows of weights at once: four sums that do not wait for each other. */
static void four_products(const float *weight, const float *x, size_t n_cols, float *out)
{
    float lane[4][LANES] = {{0}};
    for (size_t k = 0; k < n_cols; k += LANES)
        for (size_t l = 0; l < LANES; l++) {
            const float v = x[k + l];
            lane[0][l] += weight[k + l] * v;
            lane[1][l] += weight[n_cols + k + l] * v;
            lane[2][l] += weight[2 * n_cols + k + l] * v;
            lane[3][l] += weight[3 * n_cols + k + l] * v;
        }
    for (size_t r = 0; r < 4; r++)
        out[r] = fold_lanes(lane[r]);
}

static float one_product(const float *weight, const float *x, size_t n_cols)
{
    float lane[LANES] = {0};
    for (size_t k = 0; k < n_cols; k += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += weight[k + l] * x[k + l];
    return fold_lanes(lane);
}

static void rows_lane_product(const struct lane_product *s)
{
    size_t r = 0;
    for (; r + 4 <= s->n_rows; r += 4)
        for (size_t i = 0; i < s->n; i++)
            four_products(s->weight + r * s->n_cols, s->x + i * s->n_cols, s->n_cols,
                          s->out + i * s->n_rows + r);
    for (; r < s->n_rows; r++)
        for (size_t i = 0; i < s->n; i++)
            s->out[i * s->n_rows + r] =
                one_product(s->weight + r * s->n_cols, s->x + i * s->n_cols, s->n_cols);
}

/* Scores of one row, and what they are ranked by: with the selection bias added. */
static void score_experts(const struct choice *s, const float *logits, float *scores,
                          float *ranked)
{
    for (size_t e = 0; e < s->n_expert; e++)
        scores[e] = s->sigmoid ? spec_sigmoid(logits[e]) : logits[e];
    if (!s->sigmoid)
        softmax(scores, s->n_expert, NULL);
    for (size_t e = 0; e < s->n_expert; e++)
        ranked[e] = s->bias ? scores[e] + s->bias[e] : scores[e];
}

/* Whether a ranks before b, b being the lower id; what is no number comes last. */
static inline int ranks_before(float a, float b)
{
    return a > b || (b != b && a == a);
}

/* Put the top_k best into `best`, ascending by id; equal ranks go to the lower id. */
static void take_best(const float *ranked, size_t n_expert, size_t top_k, int64_t *best)
{
    size_t n = 0;
    for (size_t e = 0; e < n_expert; e++) {
        size_t worst = 0; /* of those held: the lowest rank, of equals the highest id */
        for (size_t k = 1; k < n; k++)
            if (!ranks_before(ranked[best[k]], ranked[best[worst]]))
                worst = k;
        if (n == top_k) {
            if (!ranks_before(ranked[e], ranked[best[worst]]))
                continue;
            for (size_t k = worst; k + 1 < n; k++)
                best[k] = best[k + 1];
            n--;
        }
        best[n++] = (int64_t)e;
    }
}

static void rows_choose(const struct choice *s)
{
    float *scores = s->scratch, *ranked = s->scratch + s->n_expert;
    for (size_t i = 0; i < s->n; i++) {
        int64_t *experts = s->experts + i * s->top_k;
        float *weights = s->weights + i * s->top_k;
        score_experts(s, s->logits + i * s->n_expert, scores, ranked);
        take_best(ranked, s->n_expert, s->top_k, experts);
        float total = 0.0f;
        for (size_t k = 0; k < s->top_k; k++) {
            weights[k] = scores[experts[k]];
            total += weights[k];
        }
        for (size_t k = 0; k < s->top_k; k++)
            weights[k] = (s->norm ? weights[k] / total : weights[k]) * s->scale;
    }
}

static void rows_weighted_sum(const struct weighted_sum *s)
{
    for (size_t i = 0; i < s->n; i++) {
        float *out = s->out + i * s->n_embd;
        for (size_t d = 0; d < s->n_embd; d++)
            out[d] = 0.0f;
        add_weighted(s->weights + i * s->top_k, s->values + i * s->top_k * s->n_embd,
                     s->n_embd, s->top_k, s->n_embd, out);
    }
}

const struct rows_operations ROWS_TABLE = {
    rows_rms_norm,     rows_turn,   rows_dot_scores,   rows_attend,
    rows_lane_product, rows_choose, rows_weighted_sum,
};
