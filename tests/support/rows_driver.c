/* The row operations of one instruction set as a filter, for tests on other machines.
 *
 * Reads requests from stdin and answers on stdout until the end: a request is the
 * operation's number, twelve sizes, two floats, and arrays, each with its length in
 * bytes before it; the answer is the result with its length before it. Native byte order.
 * Every array lies in memory of exactly its size, so that a sanitizer sees any access
 * beyond it. Build with -DROWS=rows_SET.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rows.h"

enum { RMS_NORM, TURN, DOT_SCORES, ATTEND, LANE_PRODUCT, CHOOSE, WEIGHTED_SUM };

static void must(size_t done)
{
    if (!done)
        exit(feof(stdin) ? 0 : 1);
}

static size_t read_size(void)
{
    uint64_t value;
    must(fread(&value, sizeof value, 1, stdin));
    return (size_t)value;
}

/* An array; NULL if it has no bytes. */
static void *read_array(void)
{
    const size_t n = read_size();
    if (!n)
        return NULL;
    void *array = malloc(n);
    must(array && fread(array, n, 1, stdin));
    return array;
}

static void answer(const void *result, size_t n)
{
    const uint64_t length = n;
    must(fwrite(&length, sizeof length, 1, stdout));
    must(!n || fwrite(result, n, 1, stdout));
    fflush(stdout);
}

static void run_norm_or_turn(int operation, const size_t *z, const float *reals)
{
    float *x = read_array(), *a = read_array();
    if (operation == TURN) {
        struct turn s = {x, a, read_array(), z[0], z[1], z[2], z[3]};
        ROWS.turn(&s);
        answer(x, z[0] * z[1] * z[2] * sizeof(float));
        return;
    }
    float *out = malloc(z[0] * z[2] * sizeof(float));
    struct rms_norm s = {x, a, out, z[0], z[1], z[2], reals[0]};
    ROWS.rms_norm(&s);
    answer(out, z[0] * z[2] * sizeof(float));
}

static void run_attention(int operation, const size_t *z, const float *reals)
{
    const size_t n = z[0], n_kv = z[1], group = z[2], head_dim = z[3], stride = z[4];
    float *queries = read_array(), *keys = read_array();
    if (operation == DOT_SCORES) {
        const size_t n_bytes = n * n_kv * group * z[5] * sizeof(float);
        struct dot_scores s = {queries, keys, malloc(n_bytes), n, n_kv, group,
                               head_dim, stride, z[5]};
        ROWS.dot_scores(&s);
        answer(s.out, n_bytes);
        return;
    }
    float *values = read_array();
    uint8_t *seen = read_array();
    const size_t n_bytes = n * n_kv * group * z[5] * sizeof(float), at_once = z[7];
    float *scratch = malloc(at_once * group * score_room(z[6] + n) * sizeof(float));
    struct attention s = {queries, keys, values, seen, malloc(n_bytes), scratch,
                          n, n_kv, group, head_dim, z[5], stride, z[6], at_once, reals[0],
                          0, n, 0, n_kv};
    ROWS.attend(&s);
    answer(s.out, n_bytes);
}

static void run_product_or_sum(int operation, const size_t *z)
{
    float *a = read_array(), *b = read_array();
    if (operation == LANE_PRODUCT) {
        const size_t n_bytes = z[0] * z[1] * sizeof(float);
        struct lane_product s = {a, b, malloc(n_bytes), z[0], z[1], z[2]};
        ROWS.lane_product(&s);
        answer(s.out, n_bytes);
        return;
    }
    const size_t n_bytes = z[0] * z[2] * sizeof(float);
    struct weighted_sum s = {a, b, malloc(n_bytes), z[0], z[1], z[2]};
    ROWS.weighted_sum(&s);
    answer(s.out, n_bytes);
}

static void run_choice(const size_t *z, const float *reals)
{
    const size_t n_chosen = z[0] * z[2];
    float *logits = read_array(), *bias = read_array();
    int64_t *experts = malloc(n_chosen * (sizeof(int64_t) + sizeof(float)));
    float *weights = (float *)(experts + n_chosen);
    struct choice s = {logits, bias, malloc(2 * z[1] * sizeof(float)), experts, weights,
                       z[0], z[1], z[2], reals[0], (int)z[3], (int)z[4]};
    ROWS.choose(&s);
    answer(experts, n_chosen * (sizeof(int64_t) + sizeof(float)));
}

int main(void)
{
    for (;;) { /* what a request took is never freed: tests are short */
        const int operation = (int)read_size();
        size_t z[12];
        float reals[2];
        for (int i = 0; i < 12; i++)
            z[i] = read_size();
        must(fread(reals, sizeof reals, 1, stdin));
        if (operation == RMS_NORM || operation == TURN)
            run_norm_or_turn(operation, z, reals);
        else if (operation == DOT_SCORES || operation == ATTEND)
            run_attention(operation, z, reals);
        else if (operation == CHOOSE)
            run_choice(z, reals);
        else
            run_product_or_sum(operation, z);
    }
}
