/* What the groups of all formats are made with: a strip of LANES rows and its bytes.

   Included by groups.h, after the operations of an instruction set. A strip is 8 groups
   of 32 columns of each of LANES rows; what several groups share is fetched once. */

#ifndef P2PMOE_STRIP_H
#define P2PMOE_STRIP_H

#include <string.h>

#include "formats.h"
#include "kernel.h"

#define GROUPS 8
#define HALF_BLOCK 18             /* bytes of a block of a half and four dwords */
#define MOST_BYTES (GROUPS * 34) /* of a strip's row: that of Q8_0 */

struct strip {
    const uint8_t *first;                  /* the first row, at the strip's first byte */
    size_t stride;                         /* bytes from row to row */
    ints raw[56];                          /* dwords of the rows' bytes */
    uint32_t words[GROUPS][LANES];         /* scales as they lie in the file */
    float s[2 * GROUPS][LANES];            /* scales by table; of Q5_0, Q5_1 fifth bits */
    uint8_t tail[LANES][MOST_BYTES + 16];  /* a copy of the rows, with room behind each */
};

struct group {
    ints t[8];
    floats s[2], m[2]; /* [1] for columns 16 to 31 where they have their own */
    int shift;         /* codes of Q4_K are 2^shift times too large */
};

INLINE const uint8_t *row_of(const struct strip *strip, int lane)
{
    return strip->first + (size_t)lane * strip->stride;
}

/* Copy the strip, whose rows have `n_bytes` each, to where it has room behind it. */
INLINE void move_strip(struct strip *strip, size_t n_bytes, int n_rows)
{
    for (int lane = 0; lane < LANES; lane++)
        memmove(strip->tail[lane], row_of(strip, lane < n_rows ? lane : n_rows - 1), n_bytes);
    strip->first = strip->tail[0];
    strip->stride = sizeof strip->tail[0];
}

INLINE ints low_nibbles(ints v) { return bits_and(v, splat(0x0F0F0F0F)); }
INLINE ints high_nibbles(ints v) { return low_nibbles(shift_right(v, 4)); }
INLINE ints merged(ints low, ints high) /* the upper half of one, the lower of the next */
{
    return bits_or(shift_right(low, 16), shift_left(high, 16));
}
INLINE ints byte_of(const ints *dwords, int j)
{
    return bits_and(shift_right(dwords[j / 4], 8 * (j % 4)), splat(0xFF));
}
INLINE floats upper_half(ints v) { return halves(shift_right(v, 16)); }

INLINE void read_dwords(struct strip *strip, int to, size_t at, int n_bytes)
{
    for (int i = 0; i < n_bytes; i += 16)
        load_rows(strip->first + at + i, strip->stride, strip->raw + to + i / 4);
}

/* `size` bytes at `at` in each block of `every` bytes. */
INLINE void gather(struct strip *strip, int n_groups, size_t every, size_t at, int size)
{
    for (int lane = 0; lane < LANES; lane++)
        for (int g = 0; g < n_groups; g++) {
            const uint8_t *q = row_of(strip, lane) + every * (size_t)g + at;
            strip->words[g][lane] = size == 4 ? load_u32(q)
                                    : size == 2 ? load_u16(q) : q[0];
        }
}

INLINE ints words_of(const struct strip *strip, int g)
{
    ints v;
    memcpy(&v, strip->words[g], sizeof v);
    return v;
}

/* 16 bytes of nibbles: columns 0 to 15 are the low ones, 16 to 31 the high ones. */
INLINE void nibbles_at(const struct strip *strip, size_t at, ints t[8])
{
    ints q[4];
    load_rows(strip->first + at, strip->stride, q);
    for (int k = 0; k < 4; k++) {
        t[k] = low_nibbles(q[k]);
        t[k + 4] = high_nibbles(q[k]);
    }
}

/* Columns 4k to 4k+3 get bits 4k to 4k+3 of `high` as their fifth ones. */
INLINE void add_fifth_bits(ints high, ints t[8])
{
    for (int k = 0; k < 8; k++) {
        ints four = bits_and(shift_right(high, 4 * k), splat(15));
        ints spread = bits_or(bits_or(shift_left(four, 4), shift_left(four, 11)),
                              bits_or(shift_left(four, 18), shift_left(four, 25)));
        t[k] = bits_or(t[k], bits_and(spread, splat(0x10101010)));
    }
}

INLINE void through_table(const int8_t *table, ints t[8])
{
    for (int k = 0; k < 8; k++)
        t[k] = stored(look_up(t[k], table));
}

#endif
