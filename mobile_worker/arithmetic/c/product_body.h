/* Rows times a quantised matrix, for one instruction set.

   Included once by each product_SET.c, which defines before:

     LANES                          output rows side by side in a register
     ints, floats                   LANES 32-bit integers, LANES floats
     load_rows(row, stride, out[4]) 16 bytes of each of LANES rows from `row` on; out[k]
                                    holds everyone's dword k
     splat, bits_and, bits_or, shift_right, shift_right_signed, shift_left     on ints
     look_up(indices, table)        bytes 0 to 15 become bytes of the table
     UNSIGNED_BYTES                 whether the dots take codes to 255, exactly
     STORED_SIGN                    what is added to signed codes before `dot_any`
     stored(v)                      signed codes with that added
     dot_any(sum, t[4], x)          sum + 16 codes (stored signed) times 16 of x
     dot_small(sum, t[4], x)        the same for codes 0 to 31 stored unsigned
     halves(v)                      the low 16 bits of each integer, an f16, as float
     to_floats, f_splat, f_add, f_sub, f_mul, f_load, f_store

   and includes set_body.h behind this.

   Why it is fast: a register holds one value of each of LANES output rows, so that the
   few float operations of a block are done for LANES rows at once, each in the order of
   specification 02. A tile of LANES rows is unpacked strip by strip (8 groups of 32
   columns) into codes whose dword k belongs to columns 4k to 4k+3; each row of input
   meets them from the nearest cache. Sums of integers are exact in any order. */

#include <string.h>

#include "elementary.h"
#include "groups.h"
#include "kernel.h"

#define STRIP (GROUPS * 32) /* columns */
#define BATCH 64            /* rows of input that share an unpacked tile */
#define AT_ONCE 4           /* of them, in registers */

INLINE int is_halved(int format) { return layout_of(format).width == 16; }
INLINE int has_min(int format) { return layout_of(format).has_min; }

/* acc + 16 or 32 columns of a group times those of one row of input. */
INLINE floats add_part(int format, floats acc, const struct group *group, int part,
                       const int8_t *x, floats x_scale, int32_t sum)
{
    ints dot = splat(-offset_of(format) * sum);
    for (int k = 4 * part; k < (is_halved(format) ? 4 * part + 4 : 8); k += 4)
        dot = has_small_codes(format) ? dot_small(dot, group->t + k, x + 4 * k)
                                    : dot_any(dot, group->t + k, x + 4 * k);
    if (format == Q4_K && UNSIGNED_BYTES)
        dot = shift_right_signed(dot, group->shift);
    acc = f_add(acc, f_mul(to_floats(dot), f_mul(group->s[part], x_scale)));
    if (has_min(format))
        acc = f_sub(acc, f_mul(f_splat((float)sum), f_mul(group->m[part], x_scale)));
    return acc;
}

/* Add group g of a strip that starts at column `col`, for n rows of input. */
INLINE void add_group(int format, const struct group *group, const struct input *x,
                      size_t row, int n, size_t col, floats *acc)
{
    for (int i = 0; i < n; i++) {
        const int8_t *codes = x->codes + (row + i) * x->n_cols + col;
        const int32_t *sums = x->sums + ((row + i) * x->n_cols + col) / 16;
        floats scale = f_splat(x->scales[((row + i) * x->n_cols + col) / 32]);
        if (is_halved(format)) {
            acc[i] = add_part(format, acc[i], group, 0, codes, scale, sums[0]);
            acc[i] = add_part(format, acc[i], group, 1, codes, scale, sums[1]);
        } else {
            acc[i] = add_part(format, acc[i], group, 0, codes, scale, sums[0] + sums[1]);
        }
    }
}

/* The same for a strip and so few rows that each group is met while it is at hand. */
INLINE void add_few(int format, const struct strip *strip, int n_groups,
                    const struct input *x, size_t row, int n, size_t col, floats *acc)
{
    floats own[AT_ONCE];
    memcpy(own, acc, (size_t)n * sizeof *own);
    struct group group = {0}; /* not every format fills all of it */
    for (int g = 0; g < n_groups; g++) {
        read_group(format, strip, g, &group);
        add_group(format, &group, x, row, n, col + 32 * (size_t)g, own);
    }
    memcpy(acc, own, (size_t)n * sizeof *own);
}

INLINE void add_strip(int format, struct strip *strip, int n_groups,
                      const struct input *x, size_t row, int n, size_t col, floats *acc)
{
    struct group groups[GROUPS];
    read_strip(format, strip, n_groups);
    switch (n) {
    case 1: add_few(format, strip, n_groups, x, row, 1, col, acc); return;
    case 2: add_few(format, strip, n_groups, x, row, 2, col, acc); return;
    case 3: add_few(format, strip, n_groups, x, row, 3, col, acc); return;
    default: break;
    }
    for (int g = 0; g < n_groups; g++)
        read_group(format, strip, g, groups + g);
    int i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE) {
        floats own[AT_ONCE];
        memcpy(own, acc + i, sizeof own);
        for (int g = 0; g < n_groups; g++)
            add_group(format, groups + g, x, row + i, AT_ONCE, col + 32 * (size_t)g, own);
        memcpy(acc + i, own, sizeof own);
    }
    for (; i < n; i++)
        for (int g = 0; g < n_groups; g++)
            add_group(format, groups + g, x, row + i, 1, col + 32 * (size_t)g, acc + i);
}

INLINE void store_tile(const struct matrix *w, size_t first, size_t row, int n,
                       const floats *acc, float *out, size_t stride)
{
    float values[LANES];
    size_t n_rows = w->n_rows - first < LANES ? w->n_rows - first : LANES;
    for (int i = 0; i < n; i++) {
        f_store(values, acc[i]);
        float *to = out + (row + i) * stride + first;
        for (size_t lane = 0; lane < n_rows; lane++)
            to[lane] = w->bias ? values[lane] + w->bias[first + lane] : values[lane];
    }
}

/* Point at a strip of LANES rows; where fewer are left, at a copy whose lanes behind the
   last row repeat it. */
INLINE void place_strip(const struct matrix *w, size_t first, size_t row_bytes, size_t at,
                        size_t strip_bytes, struct strip *strip)
{
    size_t left = row_bytes - at;
    strip->first = w->raw + first * row_bytes + at;
    strip->stride = row_bytes;
    if (w->n_rows - first < LANES)
        move_strip(strip, left < strip_bytes ? left : strip_bytes, (int)(w->n_rows - first));
}

/* Fetch the part of the next tile that lies as far in it as this strip in its own. */
INLINE void prefetch_strip(const struct matrix *w, size_t first, size_t row_bytes,
                           size_t at, size_t strip_bytes)
{
    size_t left = row_bytes - at, n_bytes = left < strip_bytes ? left : strip_bytes;
    if (first + 2 * LANES > w->n_rows)
        return;
    const uint8_t *next = w->raw + (first + LANES) * row_bytes + LANES * at;
    for (size_t line = 0; line < LANES * n_bytes; line += 64)
        __builtin_prefetch(next + line, 0, 2);
}

/* `format` is known when this is compiled: one loop for each. */
INLINE void integer_product(int format, const struct matrix *w, const struct input *x,
                            float *out, size_t stride)
{
    struct layout layout = layout_of(format);
    size_t row_bytes = w->n_cols / layout.values * layout.bytes;
    size_t strip_bytes = STRIP / layout.values * layout.bytes;
    struct strip strip;
    floats acc[BATCH];
    for (size_t first = 0; first < w->n_rows; first += LANES)
        for (size_t row = 0; row < x->n; row += BATCH) {
            int n = (int)(x->n - row < BATCH ? x->n - row : BATCH);
            for (int i = 0; i < n; i++)
                acc[i] = f_splat(0.0f);
            for (size_t col = 0, at = 0; col < w->n_cols; col += STRIP, at += strip_bytes) {
                size_t left = (w->n_cols - col) / 32;
                place_strip(w, first, row_bytes, at, strip_bytes, &strip);
                if (row == 0)
                    prefetch_strip(w, first, row_bytes, at, strip_bytes);
                if (layout.values == STRIP || left >= GROUPS)
                    add_strip(format, &strip, GROUPS, x, row, n, col, acc);
                else
                    add_strip(format, &strip, (int)left, x, row, n, col, acc);
            }
            store_tile(w, first, row, n, acc, out, stride);
        }
}
