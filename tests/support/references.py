"""Reference files for tests: good ones of made-up values, written as numpy does."""

from pathlib import Path

import numpy as np

from p2pmoe.check.reference import Reference

__all__ = ["N_VOCAB", "made_up_reference", "reference_arrays", "write_reference"]

N_VOCAB = 96


def reference_arrays(**changes: object) -> dict[str, object]:
    """Return the arrays of a good reference, some of them changed; None leaves out."""
    arrays: dict[str, object] = {
        "prompt": np.arange(5, 15, dtype=np.int32),
        "rows": np.array([0, 4, 9], np.int64),
        "logits": np.linspace(-1, 1, 3 * N_VOCAB, dtype=np.float32).reshape(3, -1),
        "greedy": np.array([1, 2, 3, 4], np.int32),
        **changes,
    }
    return {name: values for name, values in arrays.items() if values is not None}


def write_reference(path: Path, **changes: object) -> Path:
    """Write a reference file, see `reference_arrays`; return its path."""
    np.savez_compressed(path, **reference_arrays(**changes))
    return path


def made_up_reference(n_prompt: int = 10, n_greedy: int = 4) -> Reference:
    """Return a reference that asks for the first and the last row of a prompt."""
    return Reference(
        path=Path("made-up.npz"),
        prompt=tuple((7 * at + 3) % N_VOCAB for at in range(n_prompt)),
        rows=(0, n_prompt - 1),
        logits=np.zeros((2, N_VOCAB), np.float32),
        greedy=(0,) * n_greedy,
    )
