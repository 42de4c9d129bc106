/* Sums in eight lanes and softmax, for the units of rows_body.h.
 *
 * Specification 02: lane[k % 8] = fl(lane[k % 8] + v_k) for k ascending, then
 * ((l0+l1)+(l2+l3))+((l4+l5)+(l6+l7)). A compiler makes vectors of the inner loops and
 * may not change their order.
 */
#ifndef P2PMOE_ROWS_SUMS_H
#define P2PMOE_ROWS_SUMS_H

#include <math.h>

#include "elementary.h"
#include "rows.h"

static inline float fold_lanes(const float *lane)
{
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static float sum_of_squares(const float *x, size_t n)
{
    float lane[LANES] = {0};
    size_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += x[k + l] * x[k + l];
    for (size_t l = 0; k + l < n; l++)
        lane[l] += x[k + l] * x[k + l];
    return fold_lanes(lane);
}

static float sum_in_lanes(const float *values, size_t n)
{
    float lane[LANES] = {0};
    size_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += values[k + l];
    for (size_t l = 0; k + l < n; l++)
        lane[l] += values[k + l];
    return fold_lanes(lane);
}

/* The largest value; a value that is not a number is passed over. */
static float largest(const float *values, size_t n)
{
    float best[SCORE_STEP];
    for (size_t l = 0; l < SCORE_STEP; l++)
        best[l] = -INFINITY;
    size_t k = 0;
    for (; k + SCORE_STEP <= n; k += SCORE_STEP)
        for (size_t l = 0; l < SCORE_STEP; l++)
            best[l] = values[k + l] > best[l] ? values[k + l] : best[l];
    for (size_t l = 0; k + l < n; l++)
        best[l] = values[k + l] > best[l] ? values[k + l] : best[l];
    for (size_t l = 1; l < SCORE_STEP; l++)
        best[0] = best[l] > best[0] ? best[l] : best[0];
    return best[0];
}

/* Turn scores into weights in place. Of n, those below `low` weigh 0, as do those not seen
   (seen NULL: all are). A sink (NULL: none) is one more score that takes weight. */
static void softmax(float *scores, size_t low, size_t n, const uint8_t *seen,
                    const float *sink)
{
    float top = largest(scores + low, n - low);
    top = sink && *sink > top ? *sink : top;
    for (size_t k = 0; k < low; k++)
        scores[k] = 0.0f;
    for (size_t k = low; k < n; k++)
        scores[k] = spec_exp(scores[k] - top);
    if (seen)
        for (size_t k = low; k < n; k++)
            scores[k] = seen[k] ? scores[k] : 0.0f;
    float total = sum_in_lanes(scores, n);
    if (sink)
        total += spec_exp(*sink - top);
    for (size_t k = low; k < n; k++)
        scores[k] /= total;
}

/* cap * tanh(value / cap), each value in place; the specification's sigmoid makes tanh. */
static void soft_cap(float *values, size_t n, float cap)
{
    for (size_t k = 0; k < n; k++) {
        const float z = values[k] / cap;
        const float half = spec_sigmoid(z + z);
        values[k] = ((half + half) - 1.0f) * cap;
    }
}

#endif
