/* The choice of experts, for the units of rows_body.h.
 *
 * Specification 02 and decision 17; p2pmoe/model/choice.py writes the order down.
 */
#ifndef P2PMOE_ROWS_CHOICE_H
#define P2PMOE_ROWS_CHOICE_H

#include "rows_sums.h"

/* Whether a ranks before b, b being the lower id; what is no number comes last. */
static inline int ranks_before(float a, float b)
{
    return a > b || (b != b && a == a);
}

/* Scores of one row, and what they are ranked by: with the selection bias added. */
static void score_experts(const struct choice *s, const float *logits, float *scores,
                          float *ranked)
{
    for (size_t e = 0; e < s->n_expert; e++)
        scores[e] = s->function == SIGMOID ? spec_sigmoid(logits[e]) : logits[e];
    if (s->function == SOFTMAX)
        softmax(scores, 0, s->n_expert, NULL, NULL);
    for (size_t e = 0; e < s->n_expert; e++)
        ranked[e] = s->bias ? scores[e] + s->bias[e] : scores[e];
}

/* The best rank of a group; the sum of the two best, if there are two, for sigmoids. */
static float rank_group(const struct choice *s, const float *ranked, size_t n)
{
    float best = ranked[0], second = NAN; /* as if there were none */
    for (size_t e = 1; e < n; e++)
        if (ranks_before(ranked[e], best)) {
            second = best;
            best = ranked[e];
        } else if (ranks_before(ranked[e], second)) {
            second = ranked[e];
        }
    return s->function == SIGMOID && n > 1 ? best + second : best;
}

/* How many groups come before one; equal ranks go to the lower group. */
static size_t groups_before(const float *groups, size_t n, size_t own)
{
    size_t before = 0;
    for (size_t g = 0; g < own; g++)
        before += !ranks_before(groups[own], groups[g]);
    for (size_t g = own + 1; g < n; g++)
        before += ranks_before(groups[g], groups[own]);
    return before;
}

/* -inf for all experts outside the groups that may be used. */
static void mask_groups(const struct choice *s, float *ranked, float *groups)
{
    const size_t n = s->n_expert / s->n_groups;
    for (size_t g = 0; g < s->n_groups; g++)
        groups[g] = rank_group(s, ranked + g * n, n);
    for (size_t g = 0; g < s->n_groups; g++)
        if (groups_before(groups, s->n_groups, g) >= s->n_groups_used)
            for (size_t e = 0; e < n; e++)
                ranked[g * n + e] = -INFINITY;
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

static void weigh_chosen(const struct choice *s, const float *scores,
                         const int64_t *experts, float *weights)
{
    float total = 0.0f;
    for (size_t k = 0; k < s->top_k; k++)
        weights[k] = scores[experts[k]];
    if (s->function == SOFTMAX_OF_CHOSEN)
        softmax(weights, 0, s->top_k, NULL, NULL);
    for (size_t k = 0; k < s->top_k; k++)
        total += weights[k];
    for (size_t k = 0; k < s->top_k; k++)
        weights[k] = (s->norm ? weights[k] / total : weights[k]) * s->scale;
}

static void rows_choose(const struct choice *s)
{
    float *scores = s->scratch, *ranked = scores + s->n_expert;
    for (size_t i = 0; i < s->n; i++) {
        int64_t *experts = s->experts + i * s->top_k;
        score_experts(s, s->logits + i * s->n_expert, scores, ranked);
        if (s->n_groups > 1)
            mask_groups(s, ranked, ranked + s->n_expert);
        take_best(ranked, s->n_expert, s->top_k, experts);
        weigh_chosen(s, scores, experts, s->weights + i * s->top_k);
    }
}

#endif
