"""The row operations in another process: on another CPU, or under sanitizers.

Builds `rows_driver.c` for an instruction set with a compiler's command and talks to it
through pipes; otherwise as `NativeRows`.
"""

import struct
import subprocess
from pathlib import Path
from typing import Final

import numpy as np

__all__ = ["DrivenRows", "build_driver"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_SOURCES: Final = _ROOT / "mobile_worker/arithmetic/c"
_HEAD: Final = struct.Struct("=13Q2f")
_FLAGS: Final = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")
RMS_NORM, TURN, DOT_SCORES, ATTEND, LANE_PRODUCT, CHOOSE, WEIGHTED_SUM = range(7)


def build_driver(
    folder: Path, compiler: list[str], instruction_set: str, *flags: str
) -> Path:
    """Compile the driver for a set; returns the program."""
    program = folder / f"rows-{instruction_set}"
    sources = [
        _ROOT / "tests/support/rows_driver.c",
        _SOURCES / f"rows_{instruction_set}.c",
    ]
    subprocess.run(
        [
            *compiler,
            *_FLAGS,
            *flags,
            f"-DROWS=rows_{instruction_set}",
            f"-I{_SOURCES}",
            *map(str, sources),
            *("-o", str(program), "-lm"),
        ],
        check=True,
        timeout=300,
    )
    return program


class DrivenRows:
    """Operations computed by a driver, `command` with its emulator if it needs one."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def close(self) -> None:
        """End the driver; RuntimeError if it complained."""
        self._process.stdin.close()
        self._process.stdout.close()
        if self._process.wait(timeout=60):
            raise RuntimeError(f"the driver of {self.name} failed")

    def _ask(self, operation: int, sizes, reals, *arrays) -> bytes:
        padded = [*sizes, *[0] * (12 - len(sizes))]
        own = [*reals, *[0.0] * (2 - len(reals))]
        parts = [_HEAD.pack(operation, *padded, *own)]
        for array in arrays:
            raw = b"" if array is None else np.ascontiguousarray(array).tobytes()
            parts += [struct.pack("=Q", len(raw)), raw]
        self._process.stdin.write(b"".join(parts))
        self._process.stdin.flush()
        length = self._process.stdout.read(8)
        if len(length) < 8:
            raise RuntimeError(f"the driver of {self.name} stopped")
        return self._process.stdout.read(struct.unpack("=Q", length)[0])

    def rms_norm(self, x, weight, eps):
        width = x.shape[-1]
        sizes = (x.size // width, weight.size // width, width)
        raw = self._ask(RMS_NORM, sizes, (eps,), x, weight)
        return np.frombuffer(raw, np.float32).reshape(x.shape)

    def turn(self, heads, cosines, sines) -> None:
        sizes = (*heads.shape, cosines.shape[1])
        raw = self._ask(TURN, sizes, (), heads, cosines, sines)
        heads[...] = np.frombuffer(raw, np.float32).reshape(heads.shape)

    def dot_scores(self, queries, keys, n_keys):
        sizes = (*queries.shape, keys.shape[2], n_keys)
        raw = self._ask(DOT_SCORES, sizes, (), queries, keys)
        return np.frombuffer(raw, np.float32).reshape(*queries.shape[:3], n_keys)

    def attend(self, queries, keys, values, first, seen):
        head_dim, value_dim = queries.shape[3], values.shape[2]
        n_at_once = 1 + len(queries) // 2
        sizes = (*queries.shape, keys.shape[2], value_dim, first, n_at_once)
        scale = 1.0 / head_dim**0.5
        raw = self._ask(ATTEND, sizes, (scale,), queries, keys, values, seen)
        return np.frombuffer(raw, np.float32).reshape(*queries.shape[:3], value_dim)

    def lane_product(self, weight):
        def product(x):
            sizes = (len(x), *weight.shape)
            raw = self._ask(LANE_PRODUCT, sizes, (), weight, x)
            return np.frombuffer(raw, np.float32).reshape(len(x), len(weight))

        return product

    def choose(self, logits, bias, rule):
        sizes = (*logits.shape, rule.top_k, rule.score_function == 2, rule.norm)
        raw = self._ask(CHOOSE, sizes, (rule.scale,), logits, bias)
        shape = (len(logits), rule.top_k)
        split = 8 * shape[0] * shape[1]
        experts = np.frombuffer(raw[:split], np.int64).reshape(shape)
        return experts, np.frombuffer(raw[split:], np.float32).reshape(shape)

    def weighted_sum(self, values, weights):
        raw = self._ask(WEIGHTED_SUM, values.shape, (), values, weights)
        return np.frombuffer(raw, np.float32).reshape(values.shape[0], -1)
