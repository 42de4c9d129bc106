"""A model file that was damaged: some experts' weights are others, but still numbers.

What a transfer gone wrong or a wrong quantiser leaves: every header, shape and scale is
right, nothing is infinite, and the answers are worse. Seeded, so that it is always the
same damage.
"""

import re
from pathlib import Path

import numpy as np

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.model_file import open_model

__all__ = ["write_damaged"]

_BLOCK_BYTES = 34  # of Q8_0: a scale in f16, then 32 values
_DOWN = re.compile(r"blk\.\d+\.ffn_down_exps\.weight")


def write_damaged(source: Path, path: Path, *, share: float, seed: int = 5) -> Path:
    """Write a copy of a Q8_0 file in which `share` of each layer's experts is shuffled.

    Within each block of these experts' down matrices, values change their places.
    """
    rng = np.random.default_rng(seed)
    raw = bytearray(source.read_bytes())
    with open_model(source) as model:
        stacked = [t for name, t in model.tensors.items() if _DOWN.fullmatch(name)]
    for tensor in stacked:
        assert tensor.format is Format.Q8_0
        n_expert = tensor.shape[0]
        n_bytes = tensor.n_bytes // n_expert
        for expert in rng.permutation(n_expert)[: int(share * n_expert)]:
            start = tensor.offset + int(expert) * n_bytes
            blocks = np.frombuffer(raw, np.uint8, n_bytes, start)
            values = blocks.reshape(-1, _BLOCK_BYTES)[:, 2:]
            values[:] = rng.permuted(values, axis=1)
    path.write_bytes(raw)
    return path
