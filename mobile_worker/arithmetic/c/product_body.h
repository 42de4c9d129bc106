/* Rows times a quantised matrix, for one instruction set.

   Included once by each product_SET.c, which defines before:

     LANES                          output rows side by side in a register
     ints, floats                   LANES 32-bit integers, LANES floats
     load_rows(rows, at, out[4])    16 bytes of each of LANES rows from `at` on; out[k]
                                    holds everyone's dword k
     splat, bits_and, bits_or, shift_right, shift_left     on ints
     look_up(indices, table)        bytes 0 to 15 become bytes of the table
     STORED_SIGN                    what is added to signed codes before `dot_any`
     dot_any(sum, t[4], x)          sum + 16 codes (stored signed) times 16 of x
     dot_small(sum, t[4], x)        the same for codes 0 to 31 stored unsigned
     halves(v)                      the low 16 bits of each integer, an f16, as float
     to_floats, f_splat, f_add, f_sub, f_mul, f_load, f_store
     widen_halves(from, to)         8 f16 as floats

   Why it is fast: a register holds one value of each of LANES output rows, so that the
   few float operations of a block are done for LANES rows at once, each in the order of
   specification 02. A tile of LANES rows is unpacked strip by strip (8 groups of 32
   columns) into codes whose dword k belongs to columns 4k to 4k+3; each row of input
   meets them from the nearest cache. Sums of integers are exact in any order. */

#include <stdlib.h>
#include <string.h>

#include "elementary.h"
#include "kernel.h"

#define INLINE static inline __attribute__((always_inline))
#define GROUPS 8                  /* groups of 32 columns in a strip */
#define STRIP (GROUPS * 32)       /* columns */
#define BATCH 64                  /* rows of input that share an unpacked tile */
#define AT_ONCE 4                 /* of them, in registers */
#define MAX_STRIP_BYTES (GROUPS * 34)

/* How the codes of a strip come out of the file's bytes. */
enum kind {
    HALF_NIBBLES, /* f16 scale, 16 bytes of nibbles: Q4_0 */
    HALF_TABLE,   /* the same, through a table: IQ4_NL */
    HALF_BYTES,   /* f16 scale, 32 bytes: Q8_0 */
    K_NIBBLES,    /* Q4_K */
    UNPACKED,     /* through `unpack`, one scale per 32 */
    UNPACKED_MIN, /* and minima */
    UNPACKED_16,  /* one scale per 16 */
    UNPACKED_16_MIN
};

struct tile {
    const uint8_t *rows[LANES];
    struct layout layout;
    int format;
};

struct strip {
    ints raw[72]; /* the rows' bytes by dwords, for kinds read in place */
    float s[2 * GROUPS][LANES], m[2 * GROUPS][LANES]; /* UNPACKED kinds */
    int8_t codes[LANES][STRIP];
    const uint8_t *code_rows[LANES];
};

INLINE int is_unpacked(enum kind kind) { return kind >= UNPACKED; }
INLINE int has_min(enum kind kind)
{
    return kind == K_NIBBLES || kind == UNPACKED_MIN || kind == UNPACKED_16_MIN;
}
INLINE int is_halved(enum kind kind)
{
    return kind == UNPACKED_16 || kind == UNPACKED_16_MIN;
}
INLINE int has_small_codes(enum kind kind)
{
    return kind == HALF_NIBBLES || kind == K_NIBBLES;
}
/* What was added to the codes of a kind before they were stored. */
INLINE int offset_of(enum kind kind)
{
    return kind == HALF_NIBBLES ? 8 : kind == K_NIBBLES ? 0 : STORED_SIGN;
}

INLINE void read_dwords(struct strip *strip, const uint8_t *const *rows, size_t at,
                        size_t n_bytes)
{
    for (size_t chunk = 0; 16 * chunk < n_bytes; chunk++)
        load_rows(rows, at + 16 * chunk, strip->raw + 4 * chunk);
}

/* Unpack the units of a strip of each row. */
INLINE void unpack_strip(enum kind kind, const struct tile *tile, size_t at, int n_groups,
                         struct strip *strip)
{
    struct unit unit;
    int n_units = 32 * n_groups / tile->layout.values;
    int scales = tile->layout.values / tile->layout.width;
    for (int lane = 0; lane < LANES; lane++) {
        for (int i = 0; i < n_units; i++) {
            unpack(tile->format, tile->rows[lane] + at + (size_t)i * tile->layout.bytes,
                   &unit);
            memcpy(strip->codes[lane] + i * tile->layout.values, unit.codes,
                   tile->layout.values);
            for (int j = 0; j < scales; j++) {
                strip->s[scales * i + j][lane] = unit.s[j];
                if (has_min(kind))
                    strip->m[scales * i + j][lane] = unit.m[j];
            }
        }
        strip->code_rows[lane] = (const uint8_t *)strip->codes[lane];
    }
}

/* Read a strip of n_groups groups that starts `at` bytes into each row. */
INLINE void read_strip(enum kind kind, const struct tile *tile, size_t at, int n_groups,
                       struct strip *strip)
{
    if (is_unpacked(kind)) {
        unpack_strip(kind, tile, at, n_groups, strip);
        return;
    }
    size_t n_bytes = 32 * (size_t)n_groups / tile->layout.values * tile->layout.bytes;
    if (n_bytes % 16 == 0) {
        read_dwords(strip, tile->rows, at, n_bytes);
        return;
    }
    uint8_t tail[LANES][MAX_STRIP_BYTES + 16] = {{0}}; /* nothing is read behind a row */
    const uint8_t *rows[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        memcpy(tail[lane], tile->rows[lane] + at, n_bytes);
        rows[lane] = tail[lane];
    }
    read_dwords(strip, rows, 0, n_bytes);
}

/* n dwords from byte 2 * half_words of the strip on. */
INLINE void dwords_at(const struct strip *strip, int half_words, int n, ints *out)
{
    const ints *from = strip->raw + half_words / 2;
    for (int k = 0; k < n; k++)
        out[k] = half_words % 2 == 0
                     ? from[k]
                     : bits_or(shift_right(from[k], 16), shift_left(from[k + 1], 16));
}

INLINE ints low_nibbles(ints v) { return bits_and(v, splat(0x0F0F0F0F)); }
INLINE ints high_nibbles(ints v) { return low_nibbles(shift_right(v, 4)); }

/* The stored codes of group g, t[k] for columns 4k to 4k+3. */
INLINE void codes_of(enum kind kind, const struct strip *strip, int g, ints t[8])
{
    ints q[8];
    if (kind == HALF_NIBBLES || kind == HALF_TABLE) {
        dwords_at(strip, 9 * g + 1, 4, q);
        for (int k = 0; k < 4; k++) {
            t[k] = low_nibbles(q[k]);
            t[k + 4] = high_nibbles(q[k]);
            if (kind == HALF_TABLE) {
                t[k] = stored(look_up(t[k], IQ4_TABLE));
                t[k + 4] = stored(look_up(t[k + 4], IQ4_TABLE));
            }
        }
    } else if (kind == HALF_BYTES) {
        dwords_at(strip, 17 * g + 1, 8, q);
        for (int k = 0; k < 8; k++)
            t[k] = stored(q[k]);
    } else if (kind == K_NIBBLES) {
        const ints *pair = strip->raw + 4 + 8 * (g / 2);
        for (int k = 0; k < 8; k++)
            t[k] = g % 2 == 0 ? low_nibbles(pair[k]) : high_nibbles(pair[k]);
    } else {
        load_rows(strip->code_rows, (size_t)(32 * g), t);
        load_rows(strip->code_rows, (size_t)(32 * g + 16), t + 4);
        for (int k = 0; k < 8; k++)
            t[k] = stored(t[k]);
    }
}

/* Byte j of eight 6-bit numbers that lie in 12 bytes behind d and dmin. */
INLINE floats k_number(const struct strip *strip, int minimum, int j)
{
    ints own = strip->raw[1 + minimum], both = strip->raw[3];
    if (minimum)
        both = shift_right(both, 4);
    ints four = j < 4 ? bits_and(own, splat(0x3F3F3F3F))
                      : bits_or(low_nibbles(both),
                                bits_and(shift_right(own, 2), splat(0x30303030)));
    return to_floats(bits_and(shift_right(four, 8 * (j % 4)), splat(0xFF)));
}

/* The scales of group g; `second` for columns 16 to 31 where they have their own. */
INLINE floats scales_of(enum kind kind, const struct strip *strip, int g, int second)
{
    if (is_unpacked(kind))
        return f_load(strip->s[is_halved(kind) ? 2 * g + second : g]);
    if (kind == K_NIBBLES)
        return f_mul(halves(strip->raw[0]), k_number(strip, 0, g));
    int half_words = (kind == HALF_BYTES ? 17 : 9) * g;
    ints word = strip->raw[half_words / 2];
    return halves(half_words % 2 == 0 ? word : shift_right(word, 16));
}

INLINE floats minima_of(enum kind kind, const struct strip *strip, int g, int second)
{
    if (kind == K_NIBBLES)
        return f_mul(halves(shift_right(strip->raw[0], 16)), k_number(strip, 1, g));
    return f_load(strip->m[is_halved(kind) ? 2 * g + second : g]);
}

/* A group of a tile, ready for any row of input. */
struct group {
    ints t[8];
    floats s[2], m[2];
};

INLINE void read_group(enum kind kind, const struct strip *strip, int g,
                       struct group *group)
{
    codes_of(kind, strip, g, group->t);
    for (int part = 0; part < (is_halved(kind) ? 2 : 1); part++) {
        group->s[part] = scales_of(kind, strip, g, part);
        if (has_min(kind))
            group->m[part] = minima_of(kind, strip, g, part);
    }
}

/* acc + 16 or 32 columns of a group times those of one row of input. */
INLINE floats add_part(enum kind kind, floats acc, const struct group *group, int part,
                       const int8_t *x, floats x_scale, int32_t sum)
{
    ints dot = splat(-offset_of(kind) * sum);
    for (int k = 4 * part; k < (is_halved(kind) ? 4 * part + 4 : 8); k += 4)
        dot = has_small_codes(kind) ? dot_small(dot, group->t + k, x + 4 * k)
                                    : dot_any(dot, group->t + k, x + 4 * k);
    acc = f_add(acc, f_mul(to_floats(dot), f_mul(group->s[part], x_scale)));
    if (has_min(kind))
        acc = f_sub(acc, f_mul(f_splat((float)sum), f_mul(group->m[part], x_scale)));
    return acc;
}

/* Add group g of a strip that starts at column `col`, for n rows of input. */
INLINE void add_group(enum kind kind, const struct group *group, const struct input *x,
                      size_t row, int n, size_t col, floats *acc)
{
    for (int i = 0; i < n; i++) {
        const int8_t *codes = x->codes + (row + i) * x->n_cols + col;
        const int32_t *sums = x->sums + ((row + i) * x->n_cols + col) / 16;
        floats scale = f_splat(x->scales[((row + i) * x->n_cols + col) / 32]);
        if (is_halved(kind)) {
            acc[i] = add_part(kind, acc[i], group, 0, codes, scale, sums[0]);
            acc[i] = add_part(kind, acc[i], group, 1, codes, scale, sums[1]);
        } else {
            acc[i] = add_part(kind, acc[i], group, 0, codes, scale, sums[0] + sums[1]);
        }
    }
}

INLINE void add_strip(enum kind kind, const struct strip *strip, int n_groups,
                      const struct input *x, size_t row, int n, size_t col, floats *acc)
{
    struct group groups[GROUPS];
    if (n == 1) {
        for (int g = 0; g < n_groups; g++) {
            read_group(kind, strip, g, groups);
            add_group(kind, groups, x, row, 1, col + 32 * (size_t)g, acc);
        }
        return;
    }
    for (int g = 0; g < n_groups; g++)
        read_group(kind, strip, g, groups + g);
    int i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE) {
        floats own[AT_ONCE];
        memcpy(own, acc + i, sizeof own);
        for (int g = 0; g < n_groups; g++)
            add_group(kind, groups + g, x, row + i, AT_ONCE, col + 32 * (size_t)g, own);
        memcpy(acc + i, own, sizeof own);
    }
    for (; i < n; i++)
        for (int g = 0; g < n_groups; g++)
            add_group(kind, groups + g, x, row + i, 1, col + 32 * (size_t)g, acc + i);
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

/* Fetch the part of the next tile that lies as far in it as this strip in its own. */
INLINE void prefetch_strip(const struct matrix *w, size_t first, size_t row_bytes,
                           size_t at, size_t n_bytes)
{
    if (first + 2 * LANES > w->n_rows)
        return;
    const uint8_t *next = w->raw + (first + LANES) * row_bytes + LANES * at;
    for (size_t line = 0; line < LANES * n_bytes; line += 64)
        __builtin_prefetch(next + line, 0, 2);
}

INLINE void integer_product(enum kind kind, const struct matrix *w,
                            const struct input *x, float *out, size_t stride)
{
    struct tile tile = {.layout = layout_of(w->format), .format = w->format};
    size_t row_bytes = w->n_cols / tile.layout.values * tile.layout.bytes;
    size_t strip_bytes = STRIP / tile.layout.values * tile.layout.bytes;
    struct strip strip;
    floats acc[BATCH];
    for (size_t first = 0; first < w->n_rows; first += LANES) {
        for (size_t lane = 0; lane < LANES; lane++) { /* a last row stands in for none */
            size_t own = first + lane < w->n_rows ? first + lane : w->n_rows - 1;
            tile.rows[lane] = w->raw + own * row_bytes;
        }
        for (size_t row = 0; row < x->n; row += BATCH) {
            int n = (int)(x->n - row < BATCH ? x->n - row : BATCH);
            for (int i = 0; i < n; i++)
                acc[i] = f_splat(0.0f);
            for (size_t col = 0, at = 0; col < w->n_cols; col += STRIP, at += strip_bytes) {
                size_t left = (w->n_cols - col) / 32;
                int n_groups = left < GROUPS ? (int)left : GROUPS;
                read_strip(kind, &tile, at, n_groups, &strip);
                prefetch_strip(w, first, row_bytes, at, row_bytes - at < strip_bytes
                                                           ? row_bytes - at : strip_bytes);
                if (n_groups == GROUPS)
                    add_strip(kind, &strip, GROUPS, x, row, n, col, acc);
                else
                    add_strip(kind, &strip, n_groups, x, row, n, col, acc);
            }
            store_tile(w, first, row, n, acc, out, stride);
        }
    }
}

#define FLOAT_ROWS 8

typedef float lanes8 __attribute__((vector_size(32)));

INLINE lanes8 weights8(int format, const uint8_t *at)
{
    lanes8 values;
    if (format == F32)
        memcpy(&values, at, sizeof values);
    else if (format == F16)
        widen_halves(at, (float *)&values);
    else
        for (int i = 0; i < 8; i++)
            values[i] = bf16_to_f32(load_u16(at + 2 * i));
    return values;
}

/* Eight lanes by absolute index, then pairwise. */
INLINE void float_product(int format, const struct matrix *w, const struct input *x,
                          float *out, size_t stride)
{
    size_t size = format == F32 ? 4 : 2, row_bytes = w->n_cols * size;
    for (size_t first = 0; first < w->n_rows; first += FLOAT_ROWS) {
        size_t n = w->n_rows - first < FLOAT_ROWS ? w->n_rows - first : FLOAT_ROWS;
        const uint8_t *rows[FLOAT_ROWS];
        for (size_t r = 0; r < FLOAT_ROWS; r++)
            rows[r] = w->raw + (first + (r < n ? r : n - 1)) * row_bytes;
        for (size_t i = 0; i < x->n; i++) {
            lanes8 acc[FLOAT_ROWS] = {{0.0f}};
            for (size_t col = 0; col < w->n_cols; col += 8) {
                lanes8 values;
                memcpy(&values, x->floats + i * x->n_cols + col, sizeof values);
                for (int r = 0; r < FLOAT_ROWS; r++)
                    acc[r] += weights8(format, rows[r] + col * size) * values;
            }
            for (size_t r = 0; r < n; r++) {
                lanes8 l = acc[r];
                float sum = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
                out[i * stride + first + r] = w->bias ? sum + w->bias[first + r] : sum;
            }
        }
    }
}

static void product(const struct matrix *w, const struct input *x, float *out,
                    size_t stride)
{
    struct layout layout = layout_of(w->format);
    if (w->format == F32)
        float_product(F32, w, x, out, stride);
    else if (w->format == F16)
        float_product(F16, w, x, out, stride);
    else if (w->format == BF16)
        float_product(BF16, w, x, out, stride);
    else if (w->format == Q4_0)
        integer_product(HALF_NIBBLES, w, x, out, stride);
    else if (w->format == IQ4_NL)
        integer_product(HALF_TABLE, w, x, out, stride);
    else if (w->format == Q8_0)
        integer_product(HALF_BYTES, w, x, out, stride);
    else if (w->format == Q4_K)
        integer_product(K_NIBBLES, w, x, out, stride);
    else if (layout.width == 16 && layout.has_min)
        integer_product(UNPACKED_16_MIN, w, x, out, stride);
    else if (layout.width == 16)
        integer_product(UNPACKED_16, w, x, out, stride);
    else if (layout.has_min)
        integer_product(UNPACKED_MIN, w, x, out, stride);
    else
        integer_product(UNPACKED, w, x, out, stride);
}

static void code_sums(size_t n_codes, const int8_t *codes, int32_t *sums)
{
    for (size_t b = 0; b < n_codes / 16; b++) {
        int32_t sum = 0;
        for (int i = 0; i < 16; i++)
            sum += codes[16 * b + i];
        sums[b] = sum;
    }
}

static void activate(int kind, float alpha, float limit, size_t n, const float *g,
                     const float *u, float *h)
{
    if (kind == SWIGLU_OAI)
        swiglu_oai(n, alpha, limit, g, u, h);
    else
        swiglu(n, g, u, h);
}

static int finite(size_t n, const float *x) { return all_finite(n, x); }

static void code_i8(size_t n, const float *x, int8_t *codes, float *scales)
{
    code_row_i8(n, x, codes, scales);
}

static void code_i16(size_t n, const float *x, int16_t *codes, float *scales)
{
    code_row_i16(n, x, codes, scales);
}

static void round_values(size_t n, float q, float *x) { round_row(n, q, x); }

#define KERNEL_SET(identifier, set_name)                                              \
    const struct kernel_set identifier = {.name = set_name,                           \
                                          .product = product,                         \
                                          .code_sums = code_sums,                     \
                                          .activate = activate,                       \
                                          .finite = finite,                           \
                                          .code_i8 = code_i8,                         \
                                          .code_i16 = code_i16,                       \
                                          .round_values = round_values}
