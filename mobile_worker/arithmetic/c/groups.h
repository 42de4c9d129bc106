/* How each format's bytes become groups of codes and scales, LANES rows at once.

   Included by product_body.h, after the operations of an instruction set. For every
   format, in the table's order: `read_NAME` fetches what several groups of a strip share
   (a strip: 8 groups of 32 columns of each of LANES rows), `group_NAME` makes group g.
   Dword k of a row's 32 codes is t[k]; scales and minima are as in formats.h. Codes that
   are never negative are stored with their offset still in them (`offset_of`), which the
   product takes off again as a whole number; others go through `stored`. Nothing behind
   a row's last byte is read. */

#ifndef P2PMOE_GROUPS_H
#define P2PMOE_GROUPS_H

#include "strip.h"

/* Blocks of a half and four dwords, 18 bytes, are read whole: group g begins at half-word
   9 g of the strip. What is left of a short strip is read from its end; a strip of odd
   length is copied first, to have room behind it. */
INLINE void read_half_blocks(struct strip *strip, int n_groups)
{
    int n_bytes = HALF_BLOCK * n_groups, i = 0;
    if (n_bytes % 4)
        move_strip(strip, (size_t)n_bytes, LANES);
    for (; i + 16 <= n_bytes; i += 16)
        load_rows(strip->first + i, strip->stride, strip->raw + i / 4);
    if (n_bytes % 4)
        load_rows(strip->first + i, strip->stride, strip->raw + i / 4);
    else if (n_bytes % 16)
        load_rows(strip->first + n_bytes - 16, strip->stride, strip->raw + n_bytes / 4 - 4);
}

/* The four dwords of group g; returns its half. */
INLINE floats half_block(const struct strip *strip, int g, ints codes[4])
{
    const ints *from = strip->raw + 9 * g / 2;
    int odd = g % 2;
    for (int k = 0; k < 4; k++)
        codes[k] = odd ? from[k + 1] : merged(from[k], from[k + 1]);
    return odd ? upper_half(from[0]) : halves(from[0]);
}

INLINE void read_q4_0(struct strip *strip, int n) { read_half_blocks(strip, n); }

INLINE void group_q4_0(const struct strip *strip, int g, struct group *group)
{
    ints q[4];
    group->s[0] = half_block(strip, g, q);
    for (int k = 0; k < 4; k++) {
        group->t[k] = low_nibbles(q[k]);
        group->t[k + 4] = high_nibbles(q[k]);
    }
}

INLINE void read_q4_1(struct strip *strip, int n) { gather(strip, n, 20, 0, 4); }

INLINE void group_q4_1(const struct strip *strip, int g, struct group *group)
{
    nibbles_at(strip, (size_t)(20 * g + 4), group->t);
    group->s[0] = halves(words_of(strip, g));
    group->m[0] = f_sub(f_splat(-0.0f), upper_half(words_of(strip, g)));
}

INLINE void read_q5_0(struct strip *strip, int n)
{
    gather(strip, n, 22, 0, 2);
    for (int lane = 0; lane < LANES; lane++)
        for (int g = 0; g < n; g++)
            memcpy(&strip->s[GROUPS + g][lane], row_of(strip, lane) + 22 * g + 2, 4);
}

INLINE ints fifth_bits_of(const struct strip *strip, int g)
{
    ints v;
    memcpy(&v, strip->s[GROUPS + g], sizeof v);
    return v;
}

INLINE void group_q5_0(const struct strip *strip, int g, struct group *group)
{
    nibbles_at(strip, (size_t)(22 * g + 6), group->t);
    add_fifth_bits(fifth_bits_of(strip, g), group->t);
    group->s[0] = halves(words_of(strip, g));
}

INLINE void read_q5_1(struct strip *strip, int n)
{
    gather(strip, n, 24, 0, 4);
    for (int lane = 0; lane < LANES; lane++)
        for (int g = 0; g < n; g++)
            memcpy(&strip->s[GROUPS + g][lane], row_of(strip, lane) + 24 * g + 4, 4);
}

INLINE void group_q5_1(const struct strip *strip, int g, struct group *group)
{
    nibbles_at(strip, (size_t)(24 * g + 8), group->t);
    add_fifth_bits(fifth_bits_of(strip, g), group->t);
    group->s[0] = halves(words_of(strip, g));
    group->m[0] = f_sub(f_splat(-0.0f), upper_half(words_of(strip, g)));
}

INLINE void read_q8_0(struct strip *strip, int n) { gather(strip, n, 34, 0, 2); }

INLINE void group_q8_0(const struct strip *strip, int g, struct group *group)
{
    load_rows(strip->first + 34 * g + 2, strip->stride, group->t);
    load_rows(strip->first + 34 * g + 18, strip->stride, group->t + 4);
    for (int k = 0; k < 8; k++)
        group->t[k] = stored(group->t[k]);
    group->s[0] = halves(words_of(strip, g));
}

INLINE void read_q2_k(struct strip *strip)
{
    read_dwords(strip, 0, 0, 16);
    read_dwords(strip, 4, 16, 64);
    read_dwords(strip, 20, 68, 16); /* d and dmin are its last dword */
}

INLINE void group_q2_k(const struct strip *strip, int g, struct group *group)
{
    const ints *q = strip->raw + 4 + 8 * (g / 4);
    for (int k = 0; k < 8; k++)
        group->t[k] = bits_and(shift_right(q[k], 2 * (g % 4)), splat(0x03030303));
    for (int part = 0; part < 2; part++) {
        ints both = byte_of(strip->raw, 2 * g + part);
        group->s[part] = f_mul(halves(strip->raw[23]),
                               to_floats(bits_and(both, splat(15))));
        group->m[part] = f_mul(upper_half(strip->raw[23]),
                               to_floats(shift_right(both, 4)));
    }
}

INLINE void read_q3_k(struct strip *strip)
{
    read_dwords(strip, 0, 0, 96);
    read_dwords(strip, 24, 94, 16);
    for (int i = 24; i < 27; i++) /* the scales' 12 bytes begin two bytes in */
        strip->raw[i] = merged(strip->raw[i], strip->raw[i + 1]);
}

INLINE void group_q3_k(const struct strip *strip, int g, struct group *group)
{
    const ints *q = strip->raw + 8 + 8 * (g / 4), *scales = strip->raw + 24;
    for (int k = 0; k < 8; k++) {
        ints low = bits_and(shift_right(q[k], 2 * (g % 4)), splat(0x03030303));
        ints high = bits_and(shift_right(strip->raw[k], g), splat(0x01010101));
        group->t[k] = bits_or(low, shift_left(high, 2));
    }
    for (int part = 0; part < 2; part++) {
        int j = 2 * g + part;
        ints low = bits_and(shift_right(byte_of(scales, j % 8), 4 * (j / 8)), splat(15));
        ints high = bits_and(shift_right(byte_of(scales, 8 + j % 4), 2 * (j / 4)), splat(3));
        floats scale = to_floats(bits_or(low, shift_left(high, 4)));
        group->s[part] = f_mul(upper_half(strip->raw[27]), f_sub(scale, f_splat(32.0f)));
    }
}

/* The eight 6-bit scales (or minima) behind d and dmin of Q4_K and Q5_K. */
INLINE floats k_number(const struct strip *strip, int minimum, int j)
{
    ints own = strip->raw[1 + minimum], both = strip->raw[3];
    if (minimum)
        both = shift_right(both, 4);
    ints four = j < 4 ? bits_and(own, splat(0x3F3F3F3F))
                      : bits_or(low_nibbles(both),
                                bits_and(shift_right(own, 2), splat(0x30303030)));
    return to_floats(byte_of(&four, j % 4));
}

INLINE void k_numbers(const struct strip *strip, int g, struct group *group)
{
    group->s[0] = f_mul(halves(strip->raw[0]), k_number(strip, 0, g));
    group->m[0] = f_mul(upper_half(strip->raw[0]), k_number(strip, 1, g));
}

INLINE void read_q4_k(struct strip *strip) { read_dwords(strip, 0, 0, 144); }

/* High nibbles are sixteen times their codes where they lie; a product of bytes without
   a sign may take them so, and divide once instead of shifting eight times. */
INLINE void group_q4_k(const struct strip *strip, int g, struct group *group)
{
    const ints *q = strip->raw + 4 + 8 * (g / 2);
    group->shift = g % 2 && UNSIGNED_BYTES ? 4 : 0;
    for (int k = 0; k < 8; k++)
        group->t[k] = g % 2 == 0        ? low_nibbles(q[k])
                      : UNSIGNED_BYTES ? bits_and(q[k], splat((int32_t)0xF0F0F0F0))
                                       : high_nibbles(q[k]);
    k_numbers(strip, g, group);
}

INLINE void read_q5_k(struct strip *strip) { read_dwords(strip, 0, 0, 176); }

INLINE void group_q5_k(const struct strip *strip, int g, struct group *group)
{
    const ints *q = strip->raw + 12 + 8 * (g / 2);
    for (int k = 0; k < 8; k++) {
        ints low = g % 2 ? high_nibbles(q[k]) : low_nibbles(q[k]);
        ints high = bits_and(shift_right(strip->raw[4 + k], g), splat(0x01010101));
        group->t[k] = bits_or(low, shift_left(high, 4));
    }
    k_numbers(strip, g, group);
}

INLINE void read_q6_k(struct strip *strip)
{
    read_dwords(strip, 0, 0, 208);
    /* d is the end of the last dword */
    load_rows(strip->first + 194, strip->stride, strip->raw + 52);
}

INLINE void group_q6_k(const struct strip *strip, int g, struct group *group)
{
    const ints *low = strip->raw + 16 * (g / 4) + 8 * (g % 2);
    const ints *high = strip->raw + 32 + 8 * (g / 4);
    for (int k = 0; k < 8; k++) {
        ints two = bits_and(shift_right(high[k], 2 * (g % 4)), splat(0x03030303));
        group->t[k] = bits_or(low_nibbles(shift_right(low[k], g % 4 / 2 * 4)),
                              shift_left(two, 4));
    }
    for (int part = 0; part < 2; part++) {
        ints scale = byte_of(strip->raw + 48, 2 * g + part);
        ints sign = shift_left(shift_right(scale, 7), 8); /* 256 where it is negative */
        group->s[part] = f_mul(upper_half(strip->raw[55]),
                               f_sub(to_floats(scale), to_floats(sign)));
    }
}

INLINE void read_iq4_nl(struct strip *strip, int n) { read_half_blocks(strip, n); }

INLINE void group_iq4_nl(const struct strip *strip, int g, struct group *group)
{
    group_q4_0(strip, g, group);
    through_table(IQ4_TABLE, group->t);
}

INLINE void read_iq4_xs(struct strip *strip) { read_dwords(strip, 0, 0, 16); }

INLINE void group_iq4_xs(const struct strip *strip, int g, struct group *group)
{
    nibbles_at(strip, (size_t)(8 + 16 * g), group->t);
    through_table(IQ4_TABLE, group->t);
    ints low = bits_and(shift_right(strip->raw[1], 4 * g), splat(15));
    ints high = bits_and(shift_right(strip->raw[0], 16 + 2 * g), splat(3));
    floats scale = to_floats(bits_or(low, shift_left(high, 4)));
    group->s[0] = f_mul(halves(strip->raw[0]), f_sub(scale, f_splat(32.0f)));
}

INLINE void read_mxfp4(struct strip *strip, int n)
{
    gather(strip, n, 17, 0, 1);
    for (int g = 0; g < n; g++)
        for (int lane = 0; lane < LANES; lane++)
            strip->s[g][lane] = e8m0_to_f32((uint8_t)strip->words[g][lane]);
}

INLINE void group_mxfp4(const struct strip *strip, int g, struct group *group)
{
    nibbles_at(strip, (size_t)(17 * g + 1), group->t);
    through_table(FP4_TABLE, group->t);
    group->s[0] = f_load(strip->s[g]);
}

INLINE void read_nvfp4(struct strip *strip, int n)
{
    gather(strip, n / 2, 36, 0, 4);
    for (int j = 0; j < 2 * n; j++)
        for (int lane = 0; lane < LANES; lane++)
            strip->s[j][lane] =
                ue4m3_to_f32((uint8_t)(strip->words[j / 4][lane] >> 8 * (j % 4)));
}

INLINE void group_nvfp4(const struct strip *strip, int g, struct group *group)
{
    ints q[4];
    load_rows(strip->first + 36 * (g / 2) + 4 + 16 * (g % 2), strip->stride, q);
    for (int k = 0; k < 8; k++) { /* 8 bytes hold 16 columns: low nibbles, then high */
        ints own = q[k / 4 * 2 + k % 2];
        group->t[k] = k / 2 % 2 ? high_nibbles(own) : low_nibbles(own);
    }
    through_table(FP4_TABLE, group->t);
    group->s[0] = f_load(strip->s[2 * g]);
    group->s[1] = f_load(strip->s[2 * g + 1]);
}

/* Fetch a strip of n groups; `format` is known when this is compiled. */
INLINE void read_strip(int format, struct strip *strip, int n)
{
    switch (format) {
    case Q4_0:   read_q4_0(strip, n); break;
    case Q4_1:   read_q4_1(strip, n); break;
    case Q5_0:   read_q5_0(strip, n); break;
    case Q5_1:   read_q5_1(strip, n); break;
    case Q8_0:   read_q8_0(strip, n); break;
    case Q2_K:   read_q2_k(strip); break;
    case Q3_K:   read_q3_k(strip); break;
    case Q4_K:   read_q4_k(strip); break;
    case Q5_K:   read_q5_k(strip); break;
    case Q6_K:   read_q6_k(strip); break;
    case IQ4_NL: read_iq4_nl(strip, n); break;
    case IQ4_XS: read_iq4_xs(strip); break;
    case MXFP4:  read_mxfp4(strip, n); break;
    case NVFP4:  read_nvfp4(strip, n); break;
    default: break;
    }
}

INLINE void read_group(int format, const struct strip *strip, int g, struct group *group)
{
    switch (format) {
    case Q4_0:   group_q4_0(strip, g, group); break;
    case Q4_1:   group_q4_1(strip, g, group); break;
    case Q5_0:   group_q5_0(strip, g, group); break;
    case Q5_1:   group_q5_1(strip, g, group); break;
    case Q8_0:   group_q8_0(strip, g, group); break;
    case Q2_K:   group_q2_k(strip, g, group); break;
    case Q3_K:   group_q3_k(strip, g, group); break;
    case Q4_K:   group_q4_k(strip, g, group); break;
    case Q5_K:   group_q5_k(strip, g, group); break;
    case Q6_K:   group_q6_k(strip, g, group); break;
    case IQ4_NL: group_iq4_nl(strip, g, group); break;
    case IQ4_XS: group_iq4_xs(strip, g, group); break;
    case MXFP4:  group_mxfp4(strip, g, group); break;
    case NVFP4:  group_nvfp4(strip, g, group); break;
    default: break;
    }
}

/* What is still in the codes of a format when the product meets them. */
INLINE int offset_of(int format)
{
    switch (format) {
    case Q4_0: return 8;
    case Q5_0: return 16;
    case Q3_K: return 4;
    case Q6_K: return 32;
    case Q4_1: case Q5_1: case Q2_K: case Q4_K: case Q5_K: return 0;
    default:   return STORED_SIGN;
    }
}

/* Whether codes are stored as numbers from 0 to 31. */
INLINE int has_small_codes(int format)
{
    switch (format) {
    case Q4_0: case Q4_1: case Q5_0: case Q5_1: case Q2_K: case Q3_K: case Q4_K:
    case Q5_K: return 1;
    default:   return 0;
    }
}

#endif
