"""GGUF's weight formats once more, in plain Python: blocks to codes, scales, minima.

Written from the loops of ggml's reference dequantisation, a value at a time, apart from
the array code under test. Nothing here uses numpy. A row is read as a list of groups
(codes, scale, minimum or None), each 16 or 32 values; a weight is
fl(fl(code * scale) - minimum).
"""

import math
import struct

__all__ = [
    "BLOCK_BYTES",
    "FLOAT_BYTES",
    "HALF_FIELDS",
    "f32",
    "read_floats",
    "read_groups",
]

# Integer format -> (values in a block, bytes of it)
BLOCK_BYTES = {
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q8_0": (32, 34),
    "Q2_K": (256, 84),
    "Q3_K": (256, 110),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
    "IQ4_NL": (32, 18),
    "IQ4_XS": (256, 136),
    "MXFP4": (32, 17),
    "NVFP4": (64, 36),
}
# Integer format -> the places of f16 fields in a block
HALF_FIELDS = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "MXFP4": (),
    "NVFP4": (),
}
FLOAT_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # and the same with a sign


def f32(value):
    """Round a binary64 value to binary32, as a binary64 value."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def f16(raw, at):
    return struct.unpack_from("<e", raw, at)[0]


def read_floats(name, raw):
    """Return the values of a row of floats."""
    if name == "BF16":
        halves = struct.unpack(f"<{len(raw) // 2}H", raw)
        return list(
            struct.unpack(
                f"<{len(halves)}f",
                struct.pack(f"<{len(halves)}I", *[half << 16 for half in halves]),
            )
        )
    letter = {"F32": "f", "F16": "e"}[name]
    return list(struct.unpack(f"<{len(raw) // FLOAT_BYTES[name]}{letter}", raw))


def read_groups(name, raw):
    """Return the groups of a row of an integer format, in ascending order."""
    _, size = BLOCK_BYTES[name]
    read = READERS[name]
    return [
        group
        for start in range(0, len(raw), size)
        for group in read(raw[start : start + size])
    ]


def nibble(packed, i):
    """Value i of 2n nibbles: the low ones of n bytes first."""
    n = len(packed)
    return packed[i] & 15 if i < n else packed[i - n] >> 4


def q4_0(block):
    yield [nibble(block[2:], i) - 8 for i in range(32)], f16(block, 0), None


def q4_1(block):
    yield [nibble(block[4:], i) for i in range(32)], f16(block, 0), -f16(block, 2)


def fifth(block, at, i):
    return (int.from_bytes(block[at : at + 4], "little") >> i & 1) << 4


def q5_0(block):
    codes = [(nibble(block[6:], i) | fifth(block, 2, i)) - 16 for i in range(32)]
    yield codes, f16(block, 0), None


def q5_1(block):
    codes = [nibble(block[8:], i) | fifth(block, 4, i) for i in range(32)]
    yield codes, f16(block, 0), -f16(block, 2)


def q8_0(block):
    yield list(struct.unpack("<32b", block[2:])), f16(block, 0), None


def q2_k(block):
    d, dmin = f16(block, 80), f16(block, 82)
    group = 0
    for start in (16, 48):
        for shift in (0, 2, 4, 6):
            for half in (0, 16):
                codes = [block[start + half + i] >> shift & 3 for i in range(16)]
                scale, minimum = block[group] & 15, block[group] >> 4
                yield codes, f32(d * scale), f32(dmin * minimum)
                group += 1


def q3_k(block):
    d = f16(block, 108)
    packed = block[96:108]
    scales = []
    for j in range(16):
        low = packed[j] & 15 if j < 8 else packed[j - 8] >> 4
        scales.append(low | (packed[8 + j % 4] >> 2 * (j // 4) & 3) << 4)
    group, mask = 0, 1
    for start in (32, 64):
        for shift in (0, 2, 4, 6):
            for half in (0, 16):
                codes = [
                    (block[start + half + i] >> shift & 3)
                    - (0 if block[half + i] & mask else 4)
                    for i in range(16)
                ]
                yield codes, f32(d * (scales[group] - 32)), None
                group += 1
            mask <<= 1


def scale_min_k4(j, packed):
    if j < 4:
        return packed[j] & 63, packed[j + 4] & 63
    scale = packed[j + 4] & 15 | packed[j - 4] >> 6 << 4
    return scale, packed[j + 4] >> 4 | packed[j] >> 6 << 4


def q4_k(block):
    d, dmin = f16(block, 0), f16(block, 2)
    for j in range(8):
        scale, minimum = scale_min_k4(j, block[4:16])
        own = block[16 + 32 * (j // 2) :][:32]
        codes = [byte >> 4 if j % 2 else byte & 15 for byte in own]
        yield codes, f32(d * scale), f32(dmin * minimum)


def q5_k(block):
    d, dmin = f16(block, 0), f16(block, 2)
    high = block[16:48]
    for j in range(8):
        scale, minimum = scale_min_k4(j, block[4:16])
        own = block[48 + 32 * (j // 2) :][:32]
        codes = [
            (byte >> 4 if j % 2 else byte & 15) + (16 if high[i] >> j & 1 else 0)
            for i, byte in enumerate(own)
        ]
        yield codes, f32(d * scale), f32(dmin * minimum)


def q6_k(block):
    d = f16(block, 208)
    scales = struct.unpack("<16b", block[192:208])
    values = [0] * 256
    for n in (0, 1):
        low, high = block[64 * n :][:64], block[128 + 32 * n :][:32]
        for i in range(32):
            for part, bits in enumerate(
                (low[i] & 15, low[i + 32] & 15, low[i] >> 4, low[i + 32] >> 4)
            ):
                code = bits | (high[i] >> 2 * part & 3) << 4
                values[128 * n + 32 * part + i] = code - 32
    for group, scale in enumerate(scales):
        yield values[16 * group :][:16], f32(d * scale), None


def iq4_nl(block):
    yield [IQ4[nibble(block[2:], i)] for i in range(32)], f16(block, 0), None


def iq4_xs(block):
    d = f16(block, 0)
    high = int.from_bytes(block[2:4], "little")
    for j in range(8):
        low = block[4 + j // 2] >> 4 * (j % 2) & 15
        scale = low | (high >> 2 * j & 3) << 4
        own = block[8 + 16 * j :][:16]
        yield [IQ4[nibble(own, i)] for i in range(32)], f32(d * (scale - 32)), None


def e2m1_doubled(bits):
    value = int(2 * E2M1[bits & 7])
    return -value if bits & 8 else value


def mxfp4(block):
    scale = 2.0 ** (block[0] - 128) if block[0] != 255 else math.nan
    yield [e2m1_doubled(nibble(block[1:], i)) for i in range(32)], scale, None


def half_e4m3(byte):
    if byte in (0, 0x7F):
        return 0.0
    exponent, mantissa = byte >> 3 & 15, byte & 7
    if exponent == 0:
        return mantissa * 2.0**-9 / 2
    return (1 + mantissa / 8) * 2.0 ** (exponent - 7) / 2


def nvfp4(block):
    for group in range(4):
        own = block[4 + 8 * group :][:8]
        codes = [e2m1_doubled(nibble(own, i)) for i in range(16)]
        yield codes, half_e4m3(block[group]), None


READERS = {
    "Q4_0": q4_0,
    "Q4_1": q4_1,
    "Q5_0": q5_0,
    "Q5_1": q5_1,
    "Q8_0": q8_0,
    "Q2_K": q2_k,
    "Q3_K": q3_k,
    "Q4_K": q4_k,
    "Q5_K": q5_k,
    "Q6_K": q6_k,
    "IQ4_NL": iq4_nl,
    "IQ4_XS": iq4_xs,
    "MXFP4": mxfp4,
    "NVFP4": nvfp4,
}
