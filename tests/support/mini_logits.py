"""What a mini model computes of one prompt, where tests bend its keys or tensors."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from tests.support.gguf_writer import TensorBytes
from tests.support.mini_models import write_mini
from tests.support.tiny_model import load_local

__all__ = ["PROMPT", "MiniLogits", "mini_logits"]

PROMPT = [int(i) for i in np.random.default_rng(2).integers(0, 96, 20)]

Keys = Mapping[str, object]
Tensors = Mapping[str, TensorBytes | bytes | None]
MiniLogits = Callable[..., bytes]


def mini_logits(architecture: str) -> MiniLogits:
    """Return a function of (folder, keys, tensors): PROMPT's logits, bent so."""

    def logits(
        folder: Path, keys: Keys | None = None, tensors: Tensors | None = None
    ) -> bytes:
        own = load_local(write_mini(folder / "m.gguf", architecture, keys, tensors))
        return own.run(PROMPT, own.model.new_cache(len(PROMPT))).tobytes()

    return logits
