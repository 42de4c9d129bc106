"""Random arguments for the extension `_kernel`; run as a program, prints what came.

Starts from arguments that fit and changes one to three of them: sizes, formats, buffers
of other lengths, types, places, shapes. Every call must give an outcome or raise one of
the refusals; a crash ends the process. Prints how many were computed and refused.
"""

import random

import numpy as np

from mobile_worker.arithmetic.formats.block_format import Format, row_bytes
from mobile_worker.arithmetic.native.extension import load_extension

__all__ = ["good_calls", "main"]

_N_CALLS = 12_000
_REFUSALS = (ValueError, TypeError, OverflowError, BufferError, MemoryError)
_NUMBERS = (
    *(0, 1, 2, 3, 4, 7, 8, 12, 31, 32, 33, 40, 64, 96, 256, 1000, -1, -32),
    *(1 << 28, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 62, (1 << 63) - 1, 1 << 63),
)


def matrix(own: Format, n_rows: int, n_cols: int, *, bias: bool):
    raw = np.full(n_rows * row_bytes(own, n_cols), 0x11, np.uint8)
    return (int(own), n_rows, n_cols, raw, np.ones(n_rows, "f4") if bias else None)


def good_calls(own: str, n: int = 3):
    """Return arguments that each function takes; every matrix and input is there."""
    codes = np.ones((n, 64), np.int8)
    scales, floats = np.ones((n, 2), np.float32), np.ones((n, 64), np.float32)
    gate = matrix(Format.Q4_0, 32, 64, bias=True)
    up = matrix(Format.F16, 32, 64, bias=True)
    down = matrix(Format.Q8_0, 64, 32, bias=False)
    rows = np.arange(n)[::-1][:2].astype(np.int64)
    expert = (1, 1.702, 7.0, gate, up, down, rows)
    results = np.zeros((len(rows), 64), np.float32)
    out = np.zeros((n, 40), np.float32)
    extension = load_extension()
    matrices = (extension.hold_matrix(gate), extension.hold_matrix(up))
    experts = (extension.hold_expert(expert[:6]),) * 2
    ids, chosen = np.array([2, 5]), np.array([[2, 5]] * n, np.int64).reshape(n, 2)
    values = np.zeros((n, 2, 64), np.float32)
    return {
        "linear": (own, matrices, floats, n, 64, np.zeros((n, 64), np.float32)),
        "routed": (own, experts, ids, chosen, floats, n, 64, 2, 3, values, 64),
        "product": (own, gate, codes, scales, None, n, out, 40, 5),
        "experts": (own, (expert,), codes, scales, floats, n, 64, 0, (results,)),
        "code_rows": (own, floats, n * 64, codes.copy(), scales.copy()),
    }


def other(rng: random.Random, value: object) -> object:
    """Return something else where `value` stood."""
    if isinstance(value, tuple) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        return (*value[:place], other(rng, value[place]), *value[place + 1 :])
    if isinstance(value, np.ndarray) and rng.random() < 0.8:
        return other_array(rng, value)
    if isinstance(value, int) and rng.random() < 0.8:
        return rng.choice((*_NUMBERS, value - 1, value + 1, 2 * value))
    if isinstance(value, float) and rng.random() < 0.8:
        return rng.choice((0.0, -1.0, 1e30, 1e300, float("nan"), float("inf")))
    return rng.choice(
        (None, 0, 1.5, "avx2", "portable", b"", bytes(64), (), [], object(), value)
    )


def other_array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    raw = np.frombuffer(rng.randbytes(array.nbytes), np.uint8)
    choices = (
        lambda: np.zeros(rng.choice((0, 1, 31, 32, 64, 4096)), array.dtype),
        lambda: np.resize(array, max(0, array.size + rng.choice((-1, 1, 32)))),
        lambda: raw.copy().view(array.dtype),  # any bits at all
        lambda: raw.view(array.dtype),  # read only
        lambda: np.concatenate([raw[:1], raw])[1:],  # at any address
        lambda: np.repeat(array.ravel(), 2)[::2],  # with gaps
        lambda: array.astype(rng.choice(("f8", "i4", "u1", ">f4", "?"))),
        lambda: np.asfortranarray(array),
        lambda: np.clip(raw.view("i1"), -3, 3).astype(array.dtype)[: array.size],
    )
    return rng.choice(choices)()


def main() -> None:
    """Call thousands of times; print how many calls were computed, how many refused."""
    rng = random.Random(3)
    extension = load_extension()
    counts = [0, 0]
    np.seterr(all="ignore")
    for _ in range(_N_CALLS):
        own, n = rng.choice(extension.sets()), rng.choice((0, 1, 3, 70))
        name, arguments = rng.choice(list(good_calls(own, n).items()))
        for _ in range(rng.randint(1, 3)):
            arguments = other(rng, arguments)
        if not isinstance(arguments, tuple):
            arguments = (arguments,)
        try:
            outcome = getattr(extension, name)(*arguments)
        except _REFUSALS:
            counts[1] += 1
        else:
            assert outcome in {0, 1, 2}
            counts[0] += 1
    print(*counts)


if __name__ == "__main__":
    main()
