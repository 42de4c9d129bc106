/* The driver's row operations: arguments checked, then rows.h called. */

#include "kernel_driver.h"

#include <stdlib.h>

#include "rows.h"

static const struct rows_operations *operations_of(enum cpu_set set)
{
    static const struct rows_operations *const operations[CPU_N_SETS] = {
        [CPU_PORTABLE] = &rows_portable,
#ifdef CPU_BUILDS_NEON
        [CPU_NEON] = &rows_neon,
#endif
#ifdef CPU_BUILDS_X86
        [CPU_AVX2] = &rows_avx2,
        [CPU_AVX512] = &rows_avx512,
#endif
    };
    return operations[set];
}

static float *take_floats(struct record *record, size_t n_values)
{
    return take(record, times(4, n_values), 4, 1);
}

static float *make_floats(struct record *record, struct buffer *part, size_t n_values)
{
    return make(record, part, times(4, n_values));
}

static void run_norm(const struct rows_operations *set, struct record *record,
                     struct answer *answer)
{
    struct rms_norm s = {0};
    s.n_rows = take_size(record);
    s.n_weights = take_size(record);
    s.n = take_size(record);
    s.eps = take_float(record);
    if (!s.n || !s.n_weights)
        refuse("no norm");
    s.x = take_floats(record, times(s.n_rows, s.n));
    s.weight = take_floats(record, times(s.n_weights, s.n));
    s.out = make_floats(record, answer->parts, times(s.n_rows, s.n));
    enter_mode(record);
    set->rms_norm(&s);
    answer->mode_kept = leave_mode(record);
}

static void run_turn(const struct rows_operations *set, struct record *record,
                     struct answer *answer)
{
    struct turn s = {0};
    s.n = take_size(record);
    s.n_heads = take_size(record);
    s.head_dim = take_size(record);
    s.half = take_size(record);
    s.interleaved = take_size(record) != 0;
    size_t n_values = times(times(s.n, s.n_heads), s.head_dim);
    const float *heads = take_floats(record, n_values);
    s.cos = take_floats(record, times(s.n, s.half));
    s.sin = take_floats(record, times(s.n, s.half));
    if (s.half > s.head_dim / 2)
        refuse("tables longer than the heads");
    s.heads = make_floats(record, answer->parts, n_values);
    for (size_t i = 0; i < n_values; i++)
        s.heads[i] = heads[i];
    enter_mode(record);
    set->turn(&s);
    answer->mode_kept = leave_mode(record);
}

static void run_scores(const struct rows_operations *set, struct record *record,
                       struct answer *answer)
{
    struct dot_scores s = {0};
    s.n = take_size(record);
    s.n_kv = take_size(record);
    s.group = take_size(record);
    s.head_dim = take_size(record);
    s.stride = take_size(record);
    s.n_keys = take_size(record);
    size_t queries = times(times(s.n, s.n_kv), s.group);
    if (s.head_dim % LANES || s.n_keys > s.stride)
        refuse("no such scores");
    s.queries = take_floats(record, times(queries, s.head_dim));
    s.keys = take_floats(record, times(times(s.n_kv, s.head_dim), s.stride));
    s.out = make_floats(record, answer->parts, times(queries, s.n_keys));
    enter_mode(record);
    set->dot_scores(&s);
    answer->mode_kept = leave_mode(record);
}

static void run_attention(const struct rows_operations *set, struct record *record,
                          struct answer *answer)
{
    struct attention s = {0};
    s.n = take_size(record);
    s.n_kv = take_size(record);
    s.group = take_size(record);
    s.head_dim = take_size(record);
    s.value_dim = take_size(record);
    s.stride = take_size(record);
    s.first = take_size(record);
    s.window = take_size(record);
    s.scale = take_float(record);
    s.soft_cap = take_float(record);
    s.row_begin = take_size(record);
    s.row_end = take_size(record);
    s.head_begin = take_size(record);
    s.head_end = take_size(record);
    s.rows_at_once = take_size(record);
    s.heads_at_once = take_size(record);
    size_t n_values = take_size(record);
    size_t queries = times(times(s.n, s.n_kv), s.group);
    if (s.head_dim % LANES || s.first + s.n > s.stride || s.first + s.n > n_values ||
        !s.rows_at_once || !s.heads_at_once || s.row_begin > s.row_end ||
        s.row_end > s.n || s.head_begin > s.head_end || s.head_end > s.n_kv * s.group)
        refuse("no such attention");
    s.queries = take_floats(record, times(queries, s.head_dim));
    s.keys = take_floats(record, times(times(s.n_kv, s.head_dim), s.stride));
    s.values = take_floats(record, times(times(n_values, s.n_kv), s.value_dim));
    s.seen = take(record, times(times(s.n, s.n_kv), s.first + s.n), 1, 0);
    s.sinks = take(record, times(4, times(s.n_kv, s.group)), 4, 0);
    s.out = make_floats(record, answer->parts, times(queries, s.value_dim));
    s.room = attention_room(&s);
    struct buffer scratch;
    s.scratch = make_floats(record, &scratch,
                            times(times(s.rows_at_once, s.heads_at_once), s.room));
    enter_mode(record);
    set->attend(&s);
    answer->mode_kept = leave_mode(record);
    free(scratch.block);
}

static void run_lane_product(const struct rows_operations *set, struct record *record,
                             struct answer *answer)
{
    struct lane_product s = {0};
    s.n = take_size(record);
    s.n_rows = take_size(record);
    s.n_cols = take_size(record);
    if (s.n_cols % LANES)
        refuse("rows that are no whole lanes");
    s.weight = take_floats(record, times(s.n_rows, s.n_cols));
    s.x = take_floats(record, times(s.n, s.n_cols));
    s.out = make_floats(record, answer->parts, times(s.n, s.n_rows));
    enter_mode(record);
    set->lane_product(&s);
    answer->mode_kept = leave_mode(record);
}

static void run_choice(const struct rows_operations *set, struct record *record,
                       struct answer *answer)
{
    struct choice s = {0};
    s.n = take_size(record);
    s.n_expert = take_size(record);
    s.top_k = take_size(record);
    s.scale = take_float(record);
    size_t function = take_size(record);
    s.norm = take_size(record) != 0;
    s.n_groups = take_size(record);
    s.n_groups_used = take_size(record);
    struct buffer scratch;
    if (function < SOFTMAX || function > SOFTMAX_OF_CHOSEN || !s.n_groups ||
        s.n_expert % s.n_groups || !s.n_groups_used || s.n_groups_used > s.n_groups)
        refuse("no such groups or scores");
    s.function = (enum score_function)function;
    if (!s.top_k || s.top_k > s.n_expert || record->shift % 8)
        refuse("no such choice");
    s.logits = take_floats(record, times(s.n, s.n_expert));
    s.bias = take(record, 4 * s.n_expert, 4, 0);
    s.scratch = make_floats(record, &scratch, 3 * s.n_expert);
    s.experts = make(record, answer->parts, times(times(s.n, s.top_k), 8));
    s.weights = make_floats(record, answer->parts + 1, times(s.n, s.top_k));
    enter_mode(record);
    set->choose(&s);
    answer->mode_kept = leave_mode(record);
    free(scratch.block);
}

static void run_sum(const struct rows_operations *set, struct record *record,
                    struct answer *answer)
{
    struct weighted_sum s = {0};
    s.n = take_size(record);
    s.top_k = take_size(record);
    s.n_embd = take_size(record);
    s.values = take_floats(record, times(times(s.n, s.top_k), s.n_embd));
    s.weights = take_floats(record, times(s.n, s.top_k));
    s.out = make_floats(record, answer->parts, times(s.n, s.n_embd));
    enter_mode(record);
    set->weighted_sum(&s);
    answer->mode_kept = leave_mode(record);
}

void run_rows(enum cpu_set cpu_set, struct record *record, struct answer *answer)
{
    const struct rows_operations *set = operations_of(cpu_set);
    switch (record->operation) {
    case RMS_NORM:     run_norm(set, record, answer); break;
    case TURN:         run_turn(set, record, answer); break;
    case DOT_SCORES:   run_scores(set, record, answer); break;
    case ATTEND:       run_attention(set, record, answer); break;
    case LANE_PRODUCT: run_lane_product(set, record, answer); break;
    case CHOOSE:       run_choice(set, record, answer); break;
    default:           run_sum(set, record, answer); break;
    }
}
