/* The driver's products, experts and codings: arguments checked, then kernel.h called. */

#include <stdlib.h>

#include "elementary.h"
#include "expert.h"
#include "kernel_driver.h"
#include "kernel_sets.h"

static void take_matrix(struct record *record, struct matrix *matrix)
{
    matrix->format = (int)take_size(record);
    matrix->n_rows = take_size(record);
    matrix->n_cols = take_size(record);
    struct layout layout = layout_of(matrix->format);
    if (!layout.values || !matrix->n_rows || !matrix->n_cols || matrix->n_cols % 32 ||
        matrix->n_cols % layout.values)
        refuse("no such matrix");
    size_t row_bytes = matrix->n_cols / layout.values * layout.bytes;
    matrix->raw = take(record, times(matrix->n_rows, row_bytes), 1, 1);
    matrix->bias = take(record, 4 * matrix->n_rows, 4, 0);
}

static void take_input(struct record *record, struct input *x)
{
    size_t n_values = times(x->n, x->n_cols);
    x->codes = take(record, n_values, 1, 0);
    x->scales = take(record, n_values / 8, 4, x->codes != NULL);
    x->floats = take(record, 4 * n_values, 4, 0);
}

static void need_rows(const struct matrix *matrix, const struct input *x)
{
    int integer = layout_of(matrix->format).width != 0;
    if (matrix->n_cols != x->n_cols || !(integer ? (void *)x->codes : (void *)x->floats))
        refuse("rows that the matrix cannot multiply");
}

/* Check the codes and sum them, as every caller of a kernel does. */
static enum outcome prepare(const struct kernel_set *set, struct input *x, int32_t **sums)
{
    enum outcome outcome = check_input(x);
    *sums = NULL;
    if (!x->codes || outcome != DONE)
        return outcome;
    *sums = malloc(x->n * x->n_cols / 4);
    if (!*sums && x->n)
        return NO_MEMORY;
    set->code_sums(x->n * x->n_cols, x->codes, *sums);
    x->sums = *sums;
    return DONE;
}

static void run_product(const struct kernel_set *set, struct record *record,
                        struct answer *answer)
{
    struct matrix matrix;
    int32_t *sums;
    take_matrix(record, &matrix);
    struct input x = {.n = take_size(record), .n_cols = matrix.n_cols};
    size_t stride = take_size(record), column = take_size(record);
    take_input(record, &x);
    need_rows(&matrix, &x);
    if (column + matrix.n_rows > stride)
        refuse("the results do not fit their place");
    float *out = make(record, answer->parts, times(4 * x.n, stride));
    enter_mode(record);
    answer->outcome = prepare(set, &x, &sums);
    if (answer->outcome == DONE)
        set->product(&matrix, &x, out + column, stride);
    answer->mode_kept = leave_mode(record);
    free(sums);
}

static void check_expert(const struct expert *e, const struct input *x,
                         const int64_t *rows, size_t n_rows)
{
    need_rows(&e->gate, x);
    need_rows(&e->up, x);
    if (e->up.n_rows != e->gate.n_rows || e->down.n_cols != e->gate.n_rows ||
        e->down.n_rows % 32 || (e->kind != SWIGLU && e->kind != SWIGLU_OAI))
        refuse("matrices that make no expert");
    for (size_t i = 0; rows && i < n_rows; i++)
        if (rows[i] < 0 || (size_t)rows[i] >= x->n)
            refuse("a row that is not there");
}

static void run_whole_expert(const struct kernel_set *set, struct record *record,
                             struct answer *answer)
{
    struct expert e;
    int32_t *sums;
    e.kind = (int)take_size(record);
    e.alpha = take_float(record);
    e.limit = take_float(record);
    size_t result = take_size(record);
    if (result > VALUES_R8)
        refuse("no such kind of result");
    take_matrix(record, &e.gate);
    take_matrix(record, &e.up);
    take_matrix(record, &e.down);
    struct input x = {.n = take_size(record), .n_cols = e.gate.n_cols};
    size_t n_rows = take_size(record);
    take_input(record, &x);
    const int64_t *rows = take(record, 8 * n_rows, 8, 0);
    if (!rows)
        n_rows = x.n;
    check_expert(&e, &x, rows, n_rows);
    size_t row_bytes = result_row_bytes((enum result)result, e.down.n_rows);
    uint8_t *out = make(record, answer->parts, times(n_rows, row_bytes));
    enter_mode(record);
    answer->outcome = prepare(set, &x, &sums);
    if (answer->outcome == DONE)
        answer->outcome = run_expert(set, &e, &x, rows, n_rows, (enum result)result, out);
    answer->mode_kept = leave_mode(record);
    free(sums);
}

/* code_i8 and code_i16; what is not finite is not coded. */
static void run_coding(const struct kernel_set *set, struct record *record,
                       struct answer *answer)
{
    size_t n = take_size(record), size = record->operation == CODE_I8 ? 1 : 2;
    const float *x = take(record, 4 * n, 4, 1);
    if (n % 32)
        refuse("values that are no blocks of 32");
    void *codes = make(record, answer->parts, size * n);
    float *scales = make(record, answer->parts + 1, n / 8);
    enter_mode(record);
    answer->outcome = set->finite(n, x) ? DONE : NOT_FINITE;
    if (answer->outcome == DONE && size == 1)
        set->code_i8(n, x, codes, scales);
    else if (answer->outcome == DONE)
        set->code_i16(n, x, codes, scales);
    answer->mode_kept = leave_mode(record);
}

static void run_rounding(const struct kernel_set *set, struct record *record,
                         struct answer *answer)
{
    size_t n = take_size(record), is_wide = take_size(record);
    const float *x = take(record, 4 * n, 4, 1);
    if (n % 32)
        refuse("values that are no blocks of 32");
    float *out = make(record, answer->parts, 4 * n);
    for (size_t i = 0; i < n; i++)
        out[i] = x[i];
    enter_mode(record);
    set->round_values(n, is_wide ? RESULT_Q : ACTIVATION_Q, out);
    answer->mode_kept = leave_mode(record);
}

/* Into a place of its own, or over g as experts do. */
static void run_activation(const struct kernel_set *set, struct record *record,
                           struct answer *answer)
{
    int kind = (int)take_size(record);
    float alpha = take_float(record), limit = take_float(record);
    size_t n = take_size(record), in_place = take_size(record);
    const float *g = take(record, 4 * n, 4, 1), *u = take(record, 4 * n, 4, 1);
    float *out = make(record, answer->parts, 4 * n);
    if (in_place)
        for (size_t i = 0; i < n; i++)
            out[i] = g[i];
    enter_mode(record);
    set->activate(kind, alpha, limit, n, in_place ? out : g, u, out);
    answer->mode_kept = leave_mode(record);
}

void run_kernel(enum cpu_set cpu_set, struct record *record, struct answer *answer)
{
    const struct kernel_set *set = kernel_of(cpu_name(cpu_set));
    switch (record->operation) {
    case PRODUCT:  run_product(set, record, answer); break;
    case EXPERT:   run_whole_expert(set, record, answer); break;
    case CODE_I8:
    case CODE_I16: run_coding(set, record, answer); break;
    case ROUND:    run_rounding(set, record, answer); break;
    default:       run_activation(set, record, answer); break;
    }
}
