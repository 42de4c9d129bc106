/* GGUF weight formats: a unit of weights becomes integer codes, scales and minima.

   Specification 02, "Weights". A unit is the format's own block of 32, 64 or 256 values.
   `unpack_NAME` reads exactly the unit's bytes and writes one code per value and one
   scale (and minimum, where the format has one) per 32 or 16 values, as the table below
   says. A value is fl(fl(code * s) - m). f16 fields widen exactly, subnormals included.
   Plain C that compilers vectorise; little-endian machines only. Nothing is allocated
   and nothing outside the unit is read. */

#ifndef P2PMOE_FORMATS_H
#define P2PMOE_FORMATS_H

#include <stddef.h>
#include <stdint.h>

/* ggml's numbers, as in files and manifests. */
enum format {
    F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q2_K = 10,
    Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14, IQ4_NL = 20, IQ4_XS = 23, BF16 = 30,
    MXFP4 = 39, NVFP4 = 40
};

#define MAX_UNIT 256

struct unit {
    int8_t codes[MAX_UNIT];
    float s[MAX_UNIT / 16];
    float m[MAX_UNIT / 16]; /* written only where the format has minima */
};

struct layout {
    uint16_t values, bytes; /* of one unit */
    uint8_t width;          /* values under one scale: 32 or 16; 0 for a float format */
    uint8_t has_min;
};

static inline uint16_t load_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t load_u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline float bits_float(uint32_t bits)
{
    union { uint32_t u; float f; } both = {bits};
    return both.f;
}

static inline uint32_t float_bits(float value)
{
    union { float f; uint32_t u; } both = {value};
    return both.u;
}

/* IEEE binary16, exactly: 2^112 moves the exponent's bias, and subnormals with it. */
static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, size = (uint32_t)(h & 0x7FFF) << 13;
    uint32_t bits = (h & 0x7C00) == 0x7C00 ? 0x7F800000u | size
                                           : float_bits(bits_float(size) * 0x1p112f);
    return bits_float(sign | bits);
}

static inline float bf16_to_f32(uint16_t h)
{
    return bits_float((uint32_t)h << 16);
}

/* 2^(e - 128); e = 255 is no number. */
static inline float e8m0_to_f32(uint8_t e)
{
    if (e == 255)
        return bits_float(0x7FC00000u);
    return bits_float(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Unsigned 4-bit exponent, 3-bit mantissa, halved, since codes are doubled; both 0 and
   0x7F (no number) are 0, as in the gguf package. The top bit is not looked at by
   exponent and mantissa. */
static inline float ue4m3_to_f32(uint8_t x)
{
    int exponent = x >> 3 & 15, mantissa = x & 7;
    if (x == 0 || x == 0x7F)
        return 0.0f;
    if (exponent == 0)
        return (float)mantissa * 0x1p-10f;
    return bits_float((uint32_t)(exponent + 119) << 23 | (uint32_t)mantissa << 20);
}

static const int8_t IQ4_TABLE[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t FP4_TABLE[16] = {0, 1, 2, 3, 4, 6, 8, 12,
                                     0, -1, -2, -3, -4, -6, -8, -12};

/* n bytes of nibbles: the low ones are values 0 to n - 1, the high ones the next n. */
static inline void nibbles(const uint8_t *q, int n, int offset, int8_t *codes)
{
    for (int i = 0; i < n; i++) {
        codes[i] = (int8_t)((q[i] & 15) - offset);
        codes[i + n] = (int8_t)((q[i] >> 4) - offset);
    }
}

static inline void table_nibbles(const uint8_t *q, int n, const int8_t *table,
                                 int8_t *codes)
{
    for (int i = 0; i < n; i++) {
        codes[i] = table[q[i] & 15];
        codes[i + n] = table[q[i] >> 4];
    }
}

static inline void fifth_bits(uint32_t high, int offset, int8_t *codes)
{
    for (int i = 0; i < 32; i++)
        codes[i] = (int8_t)(codes[i] + (int)(high >> i & 1) * 16 - offset);
}

static void unpack_q4_0(const uint8_t *q, struct unit *u)
{
    u->s[0] = f16_to_f32(load_u16(q));
    nibbles(q + 2, 16, 8, u->codes);
}

static void unpack_q4_1(const uint8_t *q, struct unit *u)
{
    u->s[0] = f16_to_f32(load_u16(q));
    u->m[0] = -f16_to_f32(load_u16(q + 2));
    nibbles(q + 4, 16, 0, u->codes);
}

static void unpack_q5_0(const uint8_t *q, struct unit *u)
{
    u->s[0] = f16_to_f32(load_u16(q));
    nibbles(q + 6, 16, 0, u->codes);
    fifth_bits(load_u32(q + 2), 16, u->codes);
}

static void unpack_q5_1(const uint8_t *q, struct unit *u)
{
    u->s[0] = f16_to_f32(load_u16(q));
    u->m[0] = -f16_to_f32(load_u16(q + 2));
    nibbles(q + 8, 16, 0, u->codes);
    fifth_bits(load_u32(q + 4), 0, u->codes);
}

static void unpack_q8_0(const uint8_t *q, struct unit *u)
{
    u->s[0] = f16_to_f32(load_u16(q));
    for (int i = 0; i < 32; i++)
        u->codes[i] = (int8_t)q[2 + i];
}

/* u8 scales[16] | u8 q[64] | f16 d | f16 dmin */
static void unpack_q2_k(const uint8_t *q, struct unit *u)
{
    float d = f16_to_f32(load_u16(q + 80)), dmin = f16_to_f32(load_u16(q + 82));
    for (int j = 0; j < 16; j++) {
        u->s[j] = d * (float)(q[j] & 15);
        u->m[j] = dmin * (float)(q[j] >> 4);
    }
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++)
            u->codes[32 * g + i] = (int8_t)(q[16 + 32 * (g / 4) + i] >> 2 * (g % 4) & 3);
}

/* u8 high bits[32] | u8 q[64] | 12 bytes of 6-bit scales | f16 d */
static void unpack_q3_k(const uint8_t *q, struct unit *u)
{
    const uint8_t *scales = q + 96;
    float d = f16_to_f32(load_u16(q + 108));
    for (int j = 0; j < 16; j++) {
        int low = scales[j % 8] >> 4 * (j / 8) & 15;
        int high = scales[8 + j % 4] >> 2 * (j / 4) & 3;
        u->s[j] = d * (float)((low | high << 4) - 32);
    }
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++) {
            int low = q[32 + 32 * (g / 4) + i] >> 2 * (g % 4) & 3;
            u->codes[32 * g + i] = (int8_t)(low - 4 + 4 * (q[i] >> g & 1));
        }
}

/* f16 d | f16 dmin | 12 bytes of 6-bit scales and minima, eight of each */
static inline void k_scales(const uint8_t *q, struct unit *u)
{
    float d = f16_to_f32(load_u16(q)), dmin = f16_to_f32(load_u16(q + 2));
    for (int j = 0; j < 4; j++) {
        uint8_t a = q[4 + j], b = q[8 + j], both = q[12 + j];
        u->s[j] = d * (float)(a & 63);
        u->m[j] = dmin * (float)(b & 63);
        u->s[4 + j] = d * (float)((both & 15) | (a >> 2 & 48));
        u->m[4 + j] = dmin * (float)(both >> 4 | (b >> 2 & 48));
    }
}

static void unpack_q4_k(const uint8_t *q, struct unit *u)
{
    k_scales(q, u);
    for (int p = 0; p < 4; p++)
        nibbles(q + 16 + 32 * p, 32, 0, u->codes + 64 * p);
}

/* as Q4_K, with u8 fifth bits[32] before the nibbles */
static void unpack_q5_k(const uint8_t *q, struct unit *u)
{
    k_scales(q, u);
    for (int p = 0; p < 4; p++)
        nibbles(q + 48 + 32 * p, 32, 0, u->codes + 64 * p);
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 32; i++)
            u->codes[32 * g + i] =
                (int8_t)(u->codes[32 * g + i] + (q[16 + i] >> g & 1) * 16);
}

/* u8 low nibbles[128] | u8 upper pairs of bits[64] | i8 scales[16] | f16 d */
static void unpack_q6_k(const uint8_t *q, struct unit *u)
{
    float d = f16_to_f32(load_u16(q + 208));
    for (int j = 0; j < 16; j++)
        u->s[j] = d * (float)(int8_t)q[192 + j];
    for (int g = 0; g < 8; g++) {
        const uint8_t *low = q + 64 * (g / 4) + 32 * (g % 2);
        const uint8_t *high = q + 128 + 32 * (g / 4);
        int low_shift = g % 4 / 2 * 4, high_shift = g % 4 * 2;
        for (int i = 0; i < 32; i++)
            u->codes[32 * g + i] = (int8_t)((low[i] >> low_shift & 15) +
                                            (high[i] >> high_shift & 3) * 16 - 32);
    }
}

static void unpack_iq4_nl(const uint8_t *q, struct unit *u)
{
    u->s[0] = f16_to_f32(load_u16(q));
    table_nibbles(q + 2, 16, IQ4_TABLE, u->codes);
}

/* f16 d | u16 upper bits of scales | u8 lower nibbles of scales[4] | u8 q[128] */
static void unpack_iq4_xs(const uint8_t *q, struct unit *u)
{
    float d = f16_to_f32(load_u16(q));
    int high = load_u16(q + 2);
    for (int g = 0; g < 8; g++) {
        int scale = (q[4 + g / 2] >> 4 * (g % 2) & 15) | (high >> 2 * g & 3) << 4;
        u->s[g] = d * (float)(scale - 32);
        table_nibbles(q + 8 + 16 * g, 16, IQ4_TABLE, u->codes + 32 * g);
    }
}

static void unpack_mxfp4(const uint8_t *q, struct unit *u)
{
    u->s[0] = e8m0_to_f32(q[0]);
    table_nibbles(q + 1, 16, FP4_TABLE, u->codes);
}

/* u8 scales[4], each of 16 values | per 16 values 8 bytes of nibbles */
static void unpack_nvfp4(const uint8_t *q, struct unit *u)
{
    for (int j = 0; j < 4; j++) {
        u->s[j] = ue4m3_to_f32(q[j]);
        table_nibbles(q + 4 + 8 * j, 8, FP4_TABLE, u->codes + 16 * j);
    }
}

/* The layout of a format; `values` is 0 for one that cannot be computed with. */
static inline struct layout layout_of(int format)
{
    switch (format) {
    case F32:    return (struct layout){1, 4, 0, 0};
    case F16:    return (struct layout){1, 2, 0, 0};
    case BF16:   return (struct layout){1, 2, 0, 0};
    case Q4_0:   return (struct layout){32, 18, 32, 0};
    case Q4_1:   return (struct layout){32, 20, 32, 1};
    case Q5_0:   return (struct layout){32, 22, 32, 0};
    case Q5_1:   return (struct layout){32, 24, 32, 1};
    case Q8_0:   return (struct layout){32, 34, 32, 0};
    case Q2_K:   return (struct layout){256, 84, 16, 1};
    case Q3_K:   return (struct layout){256, 110, 16, 0};
    case Q4_K:   return (struct layout){256, 144, 32, 1};
    case Q5_K:   return (struct layout){256, 176, 32, 1};
    case Q6_K:   return (struct layout){256, 210, 16, 0};
    case IQ4_NL: return (struct layout){32, 18, 32, 0};
    case IQ4_XS: return (struct layout){256, 136, 32, 0};
    case MXFP4:  return (struct layout){32, 17, 32, 0};
    case NVFP4:  return (struct layout){64, 36, 16, 0};
    default:     return (struct layout){0, 0, 0, 0};
    }
}

/* Unpack one unit of an integer format. */
static inline void unpack(int format, const uint8_t *q, struct unit *u)
{
    switch (format) {
    case Q4_0:   unpack_q4_0(q, u); break;
    case Q4_1:   unpack_q4_1(q, u); break;
    case Q5_0:   unpack_q5_0(q, u); break;
    case Q5_1:   unpack_q5_1(q, u); break;
    case Q8_0:   unpack_q8_0(q, u); break;
    case Q2_K:   unpack_q2_k(q, u); break;
    case Q3_K:   unpack_q3_k(q, u); break;
    case Q4_K:   unpack_q4_k(q, u); break;
    case Q5_K:   unpack_q5_k(q, u); break;
    case Q6_K:   unpack_q6_k(q, u); break;
    case IQ4_NL: unpack_iq4_nl(q, u); break;
    case IQ4_XS: unpack_iq4_xs(q, u); break;
    case MXFP4:  unpack_mxfp4(q, u); break;
    case NVFP4:  unpack_nvfp4(q, u); break;
    default: break;
    }
}

#endif
