/* See expert.h. */

#include "expert.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "elementary.h"

/* Memory for one portion of rows; everything is carved from `block`. */
struct scratch {
    void *block;
    int8_t *x_codes, *h_codes;
    float *x_scales, *x_floats, *h_scales, *gate, *up, *y;
    int32_t *x_sums, *h_sums;
};

static size_t room(size_t *at, size_t n_bytes)
{
    size_t own = *at;
    *at += (n_bytes + 63) / 64 * 64;
    return own;
}

static int take_scratch(const struct expert *e, size_t portion, struct scratch *s)
{
    size_t n_embd = e->gate.n_cols, n_ff = e->gate.n_rows, at = 0;
    size_t x_codes = room(&at, portion * n_embd), h_codes = room(&at, portion * n_ff);
    size_t x_scales = room(&at, portion * n_embd / 8);
    size_t x_floats = room(&at, portion * n_embd * 4);
    size_t h_scales = room(&at, portion * n_ff / 8);
    size_t gate = room(&at, portion * n_ff * 4), up = room(&at, portion * n_ff * 4);
    size_t y = room(&at, portion * e->down.n_rows * 4);
    size_t x_sums = room(&at, portion * n_embd / 4), h_sums = room(&at, portion * n_ff / 4);
    char *block = malloc(at);
    if (!block)
        return 0;
    *s = (struct scratch){
        .block = block,
        .x_codes = (int8_t *)(block + x_codes),
        .h_codes = (int8_t *)(block + h_codes),
        .x_scales = (float *)(block + x_scales),
        .x_floats = (float *)(block + x_floats),
        .h_scales = (float *)(block + h_scales),
        .gate = (float *)(block + gate),
        .up = (float *)(block + up),
        .y = (float *)(block + y),
        .x_sums = (int32_t *)(block + x_sums),
        .h_sums = (int32_t *)(block + h_sums),
    };
    return 1;
}

/* The chosen rows of x one behind the other. */
static struct input gather(const struct input *x, const int64_t *rows, size_t n,
                           const struct scratch *s)
{
    size_t width = x->n_cols, blocks = width / 32, sums = width / 16;
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)rows[i];
        if (x->codes) {
            memcpy(s->x_codes + i * width, x->codes + row * width, width);
            memcpy(s->x_scales + i * blocks, x->scales + row * blocks, blocks * 4);
            memcpy(s->x_sums + i * sums, x->sums + row * sums, sums * 4);
        }
        if (x->floats)
            memcpy(s->x_floats + i * width, x->floats + row * width, width * 4);
    }
    return (struct input){
        .n = n,
        .n_cols = width,
        .codes = x->codes ? s->x_codes : NULL,
        .scales = x->codes ? s->x_scales : NULL,
        .sums = x->codes ? s->x_sums : NULL,
        .floats = x->floats ? s->x_floats : NULL,
    };
}

static struct input slice(const struct input *x, size_t first, size_t n)
{
    size_t at = first * x->n_cols;
    return (struct input){
        .n = n,
        .n_cols = x->n_cols,
        .codes = x->codes ? x->codes + at : NULL,
        .scales = x->codes ? x->scales + at / 32 : NULL,
        .sums = x->codes ? x->sums + at / 16 : NULL,
        .floats = x->floats ? x->floats + at : NULL,
    };
}

size_t result_row_bytes(enum result result, size_t n_embd)
{
    if (result == CODED_R16)
        return n_embd * 2 + n_embd / 8;
    return result == CODED_R8 ? n_embd + n_embd / 8 : n_embd * 4;
}

/* Code finite results y, or round them, into `out`. NOT_FINITE where the largest code of
   a block, which is q, stands for more than there is. */
static enum outcome code_results(const struct kernel_set *set, float *y, size_t n,
                                 size_t n_embd, enum result result, uint8_t *out)
{
    size_t width = result_row_bytes(result, n_embd), scales = n_embd / 8;
    float q = result == CODED_R16 || result == VALUES_R16 ? RESULT_Q : ACTIVATION_Q;
    float largest = 0.0f;
    if (result == VALUES_R16 || result == VALUES_R8)
        set->round_values(n * n_embd, q, y);
    if (result != CODED_R16 && result != CODED_R8) {
        memcpy(out, y, n * width);
        return set->finite(n * n_embd, y) ? DONE : NOT_FINITE;
    }
    for (size_t i = 0; i < n; i++) { /* n_embd % 32 == 0 keeps all aligned */
        uint8_t *row = out + i * width;
        float *row_scales = (float *)(row + width - scales);
        if (result == CODED_R16)
            set->code_i16(n_embd, y + i * n_embd, (int16_t *)row, row_scales);
        else
            set->code_i8(n_embd, y + i * n_embd, (int8_t *)row, row_scales);
        for (size_t b = 0; b < n_embd / 32; b++)
            largest = at_least(row_scales[b], largest);
    }
    return largest * q <= FLT_MAX ? DONE : NOT_FINITE;
}

static enum outcome run_portion(const struct kernel_set *set, const struct expert *e,
                                const struct input *x, const struct scratch *s,
                                enum result result, uint8_t *out)
{
    size_t n_ff = e->gate.n_rows, n_embd = e->down.n_rows, n = x->n;
    set->product(&e->gate, x, s->gate, n_ff);
    set->product(&e->up, x, s->up, n_ff);
    if (!set->finite(n * n_ff, s->gate) || !set->finite(n * n_ff, s->up))
        return NOT_FINITE;
    set->activate(e->kind, e->alpha, e->limit, n * n_ff, s->gate, s->up, s->gate);
    if (!set->finite(n * n_ff, s->gate))
        return NOT_FINITE;
    struct input h = {.n = n, .n_cols = n_ff, .floats = s->gate};
    if (layout_of(e->down.format).width) {
        set->code_i8(n * n_ff, s->gate, s->h_codes, s->h_scales);
        set->code_sums(n * n_ff, s->h_codes, s->h_sums);
        h.codes = s->h_codes;
        h.scales = s->h_scales;
        h.sums = s->h_sums;
    }
    set->product(&e->down, &h, s->y, n_embd);
    if (!set->finite(n * n_embd, s->y))
        return NOT_FINITE;
    return code_results(set, s->y, n, n_embd, result, out);
}

enum outcome run_expert(const struct kernel_set *set, const struct expert *e,
                        const struct input *x, const int64_t *rows, size_t n_rows,
                        enum result result, uint8_t *out)
{
    struct scratch scratch;
    enum outcome outcome = DONE;
    if (!n_rows)
        return DONE;
    if (!take_scratch(e, n_rows < PORTION ? n_rows : PORTION, &scratch))
        return NO_MEMORY;
    for (size_t first = 0; first < n_rows && outcome == DONE; first += PORTION) {
        size_t n = n_rows - first < PORTION ? n_rows - first : PORTION;
        struct input part = rows ? gather(x, rows + first, n, &scratch)
                                 : slice(x, first, n);
        outcome = run_portion(set, e, &part, &scratch, result, out);
        out += n * result_row_bytes(result, e->down.n_rows);
    }
    free(scratch.block);
    return outcome;
}

enum outcome check_input(const struct input *x)
{
    int8_t lowest = 0;
    int bad = 0;
    if (!x->codes)
        return DONE;
    for (size_t i = 0; i < x->n * x->n_cols; i++)
        lowest = x->codes[i] < lowest ? x->codes[i] : lowest;
    for (size_t i = 0; i < x->n * x->n_cols / 32; i++) /* NaN, infinite, below -0 */
        bad |= float_bits(x->scales[i]) >= 0x7F800000u && x->scales[i] != 0.0f;
    return lowest == -128 || bad ? CODE_REFUSED : DONE;
}
