/* The operations of rows.h for one instruction set: plain loops, compiled once a set.
 *
 * A unit sets its target, defines ROWS_TABLE as the name of its table and includes this.
 * The order of every sum is the specification's; a vector's elements are output elements,
 * positions, or the eight lanes.
 */
#include "rows_attention.h"
#include "rows_choice.h"

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

static void turn_halves(float *restrict left, float *restrict right, const float *cos,
                        const float *sin, size_t half)
{
    for (size_t k = 0; k < half; k++) {
        const float l = left[k], r = right[k];
        left[k] = l * cos[k] - r * sin[k];
        right[k] = r * cos[k] + l * sin[k];
    }
}

static void turn_neighbours(float *restrict head, const float *cos, const float *sin,
                            size_t half)
{
    for (size_t k = 0; k < half; k++) {
        const float l = head[2 * k], r = head[2 * k + 1];
        head[2 * k] = l * cos[k] - r * sin[k];
        head[2 * k + 1] = r * cos[k] + l * sin[k];
    }
}

static void rows_turn(const struct turn *s)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t h = 0; h < s->n_heads; h++) {
            const float *cos = s->cos + i * s->half, *sin = s->sin + i * s->half;
            float *head = s->heads + (i * s->n_heads + h) * s->head_dim;
            if (s->interleaved)
                turn_neighbours(head, cos, sin, s->half);
            else
                turn_halves(head, head + s->half, cos, sin, s->half);
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
