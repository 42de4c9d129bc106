/* How each integer format is read, as one line of a table.

   The shared unpackers of c/formats.h would take more bytes than a whole module may
   have. Here sixteen codes at a time are put together from at most two planes of bits,
   then lowered by an offset or looked up in a table; a scale is a binary16 times a
   small integer. What a block looks like is said in c/formats.h; that both read it
   alike is held by the golden vectors. */

#ifndef P2PMOE_RECIPE_H
#define P2PMOE_RECIPE_H

#include "../../c/formats.h"
#include "vector.h"

/* Where the bits of codes lie. The first four are the logarithm of how many groups of
   32 values share 32 bytes, each group with its own bits of every byte. */
enum plane {
    BYTES = 0, NIBBLES = 1, PAIRS = 2, BITS = 3,
    HALVES, /* nibbles of 16 bytes: the low ones are values 0 to 15, then the high */
    SPREAD, /* nibbles, two groups apart: 0 and 2, 1 and 3 share their 32 bytes */
    NONE,
    EIGHTS, /* nibbles of 8 bytes: the low ones are values 0 to 7, then the high */
    FIFTHS  /* 32 single bits in a row */
};

enum table { OFFSET, IQ4, FP4 };

struct recipe {
    uint8_t format, groups, bytes;    /* of one unit; a group is 32 values */
    uint8_t low, low_at;              /* the plane of a code's lower bits */
    uint8_t high, high_at, high_shift; /* that of the bits above, if there are any */
    uint8_t table, offset;            /* code = table[bits] or bits - offset */
    uint8_t is_16_wide, has_min;      /* values under one scale: 16, else 32 */
    uint8_t d_at, dmin_at;            /* binary16 factors of scales and minima */
    uint8_t scale_offset;             /* subtracted from a scale's integer */
};

static const struct recipe RECIPES[] = {
    {Q4_0, 1, 18, HALVES, 2, NONE, 0, 0, OFFSET, 8, 0, 0, 0, 0, 0},
    {Q8_0, 1, 34, BYTES, 2, NONE, 0, 0, OFFSET, 0, 0, 0, 0, 0, 0},
    {Q4_1, 1, 20, HALVES, 4, NONE, 0, 0, OFFSET, 0, 0, 1, 0, 2, 0},
    {Q5_0, 1, 22, HALVES, 6, FIFTHS, 2, 4, OFFSET, 16, 0, 0, 0, 0, 0},
    {Q5_1, 1, 24, HALVES, 8, FIFTHS, 4, 4, OFFSET, 0, 0, 1, 0, 2, 0},
    {Q2_K, 8, 84, PAIRS, 16, NONE, 0, 0, OFFSET, 0, 1, 1, 80, 82, 0},
    {Q3_K, 8, 110, PAIRS, 32, BITS, 0, 2, OFFSET, 4, 1, 0, 108, 0, 32},
    {Q4_K, 8, 144, NIBBLES, 16, NONE, 0, 0, OFFSET, 0, 0, 1, 0, 2, 0},
    {Q5_K, 8, 176, NIBBLES, 48, BITS, 16, 4, OFFSET, 0, 0, 1, 0, 2, 0},
    {Q6_K, 8, 210, SPREAD, 0, PAIRS, 128, 4, OFFSET, 32, 1, 0, 208, 0, 0},
    {IQ4_NL, 1, 18, HALVES, 2, NONE, 0, 0, IQ4, 0, 0, 0, 0, 0, 0},
    {IQ4_XS, 8, 136, HALVES, 8, NONE, 0, 0, IQ4, 0, 0, 0, 0, 0, 32},
    {MXFP4, 1, 17, HALVES, 1, NONE, 0, 0, FP4, 0, 0, 0, 0, 0, 0},
    {NVFP4, 2, 36, EIGHTS, 4, NONE, 0, 0, FP4, 0, 1, 0, 0, 0, 0},
};

/* The recipe of a format, or NULL. */
static const struct recipe *recipe_of(int format)
{
    for (unsigned i = 0; i < sizeof RECIPES / sizeof *RECIPES; i++)
        if (RECIPES[i].format == format)
            return RECIPES + i;
    return 0;
}

/* Bits of a unit: (byte >> shift) & mask, of the byte at `at` or the 16 from there. */
struct field {
    uint8_t at, shift, mask;
};

/* The fields of the format at hand; found once per product. */
static struct {
    struct field low[16], high[16]; /* of each 16 codes */
    struct field factor[2][16];     /* of each scale's integer; of each minimum's */
    struct field upper[2][16];      /* of the two bits above those */
} fields;

/* The field of half `j` of group `g` in a plane that begins at `at`. */
static struct field code_field(enum plane plane, uint32_t at, uint32_t g, uint32_t j)
{
    if (plane == HALVES) {
        at += 16 * g;
        g = j;
        j = 0;
        plane = NIBBLES;
    } else if (plane == SPREAD) {
        at += 32 * (g / 4 + g % 2);
        g /= 2;
        plane = NIBBLES;
    } else if (plane >= NONE) {
        return (struct field){0, 0, 0};
    }
    uint32_t n_bits = 8u >> plane;
    return (struct field){(uint8_t)(at + 32 * (g >> plane) + 16 * j),
                          (uint8_t)(n_bits * (g & ((1u << plane) - 1))),
                          (uint8_t)(0xFFu >> (8 - n_bits))};
}

/* The fields of scale `j` of a unit, or of its minimum. */
static void find_factor(int format, uint32_t is_min, uint32_t j)
{
    uint32_t at = j, shift = 0, mask = 15, upper_at = 0, upper_shift = 8;
    switch (format) {
    case Q2_K:
        shift = 4 * is_min;
        break;
    case Q3_K:
        at = 96 + j % 8;
        shift = j / 8 * 4;
        upper_at = 104 + j % 4;
        upper_shift = j / 4 * 2;
        break;
    case Q4_K:
    case Q5_K:
        at = 4 + 4 * is_min + j;
        mask = 63;
        if (j >= 4) {
            at = 8 + j;
            shift = 4 * is_min;
            mask = 15;
            upper_at = 4 * is_min + j;
            upper_shift = 6;
        }
        break;
    case IQ4_XS:
        at = 4 + j / 2;
        shift = j % 2 * 4;
        upper_at = 2 + j / 4;
        upper_shift = j % 4 * 2;
        break;
    default: /* a byte; MXFP4 and NVFP4 begin with theirs */
        at = format == Q6_K ? 192 + j : j;
        mask = 255;
    }
    fields.factor[is_min][j] =
        (struct field){(uint8_t)at, (uint8_t)shift, (uint8_t)mask};
    fields.upper[is_min][j] =
        (struct field){(uint8_t)upper_at, (uint8_t)upper_shift, 3};
}

static void find_fields(const struct recipe *recipe)
{
    for (uint32_t i = 0; i < 16; i++) {
        fields.low[i] = code_field(recipe->low, recipe->low_at, i / 2, i % 2);
        fields.high[i] = code_field(recipe->high, recipe->high_at, i / 2, i % 2);
    }
    for (uint32_t i = 0; i < 32; i++)
        find_factor(recipe->format, i / 16, i % 16);
}

ALWAYS_INLINE v128_t read_field(const struct field *field, const uint8_t *unit)
{
    v128_t bytes = wasm_u16x8_shr(wasm_v128_load(unit + field->at), field->shift);
    return wasm_v128_and(bytes, wasm_u8x16_splat(field->mask));
}

/* u8x16: 16 bits in a row, each 16 or 0. */
ALWAYS_INLINE v128_t spread_bits(const uint8_t *q)
{
    v128_t bit = wasm_i64x2_splat((int64_t)0x8040201008040201u);
    v128_t both = wasm_v128_load16_splat(q);
    v128_t bytes = wasm_i8x16_shuffle(both, both, 0, 0, 0, 0, 0, 0, 0, 0,
                                      1, 1, 1, 1, 1, 1, 1, 1);
    v128_t is_set = wasm_i8x16_eq(wasm_v128_and(bytes, bit), bit);
    return wasm_v128_and(is_set, wasm_i8x16_splat(16));
}

/* u8x16: the nibbles of 8 bytes, the low ones first. */
ALWAYS_INLINE v128_t eight_nibbles(const uint8_t *q)
{
    v128_t low = wasm_v128_load64_splat(q), high = wasm_u16x8_shr(low, 4);
    return wasm_v128_and(wasm_i64x2_shuffle(low, high, 0, 2), wasm_i8x16_splat(15));
}

/* i8x16: 16 codes, half `j` of group `g` of a unit. */
ALWAYS_INLINE v128_t codes_of(const struct recipe *recipe, const uint8_t *unit,
                              uint32_t g, uint32_t j)
{
    v128_t bits = read_field(&fields.low[2 * g + j], unit);
    if (recipe->high == FIFTHS) {
        bits = wasm_v128_or(bits, spread_bits(unit + recipe->high_at + 2 * j));
    } else if (recipe->high != NONE) {
        v128_t high = read_field(&fields.high[2 * g + j], unit);
        bits = wasm_v128_or(bits, wasm_i16x8_shl(high, recipe->high_shift));
    }
    if (recipe->table == OFFSET)
        return wasm_i8x16_sub(bits, wasm_i8x16_splat((int8_t)recipe->offset));
    if (recipe->low == EIGHTS)
        bits = eight_nibbles(unit + recipe->low_at + 16 * g + 8 * j);
    const int8_t *table = recipe->table == IQ4 ? IQ4_TABLE : FP4_TABLE;
    return wasm_i8x16_swizzle(wasm_v128_load(table), bits);
}

/* f32x4: 2^(e - 128) of four exponents; 255, which is refused, gives infinity. */
ALWAYS_INLINE v128_t widen_e8m0(v128_t e)
{
    v128_t least = wasm_i32x4_splat(0x00400000); /* 2^-127, for e = 0 */
    v128_t doubled = wasm_i32x4_max(wasm_i32x4_shl(e, 23), least);
    return wasm_f32x4_mul(doubled, wasm_f32x4_splat(0.5f));
}

/* f32x4 of four scales of NVFP4, as ue4m3_to_f32 does it. */
ALWAYS_INLINE v128_t widen_ue4m3(v128_t x)
{
    v128_t is_none = wasm_i32x4_eq(x, wasm_i32x4_splat(0x7F));
    v128_t bits = wasm_i32x4_shl(wasm_v128_and(x, wasm_i32x4_splat(0x7F)), 20);
    return wasm_v128_andnot(wasm_f32x4_mul(bits, wasm_f32x4_splat(0x1p119f)), is_none);
}

/* f32x4: scale `j` of a unit, or its minimum, in each of four rows. */
NEVER_INLINE v128_t factors_of(const struct recipe *recipe, uint32_t is_min,
                               const uint8_t *unit, uint32_t step, uint32_t j)
{
    int format = recipe->format;
    const uint8_t *d_at = unit + (is_min ? recipe->dmin_at : recipe->d_at);
    v128_t d = widen_small_f16(gather_f16(d_at, step));
    if (recipe->groups == 1 && format != MXFP4)
        return is_min ? wasm_f32x4_neg(d) : d; /* the file holds -m */
    struct field low = fields.factor[is_min][j], high = fields.upper[is_min][j];
    v128_t each = wasm_i32x4_splat(0);
    for (int i = 0; i < 4; i++, unit += step) {
        int bits = (unit[low.at] >> low.shift & low.mask) |
                   (unit[high.at] >> high.shift & high.mask) << 4;
        each = wasm_i32x4_shuffle(each, wasm_i32x4_splat(bits), 1, 2, 3, 4);
    }
    if (format == MXFP4)
        return widen_e8m0(each);
    if (format == NVFP4)
        return widen_ue4m3(each);
    each = wasm_i32x4_shr(wasm_i32x4_shl(each, 24), 24); /* those of Q6_K are signed */
    each = wasm_i32x4_sub(each, wasm_i32x4_splat(recipe->scale_offset));
    return wasm_f32x4_mul(d, wasm_f32x4_convert_i32x4(each));
}

#endif
