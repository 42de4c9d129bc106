"""llama.cpp as a baseline, in a process of its own, through the wheel `xllamacpp`.

A development tool only (dependency group `bench`): nothing of the project needs it, and
benchmarks leave it out where it is not installed. `Llama` measures what our side does
in the same words: a prompt of n rows, and decoding after a prompt, in tokens a second.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from tests.benchmarks.rounds import Timed

__all__ = ["HOW_TO_INSTALL", "Llama", "is_installed"]

HOW_TO_INSTALL = (
    "without llama.cpp beside it: `make bench-kernels` installs it, or by hand "
    "`pip install --group bench`"
)
_ROOT = Path(__file__).resolve().parents[2]
_MAX_DISAGREEMENT = 0.05  # of wall time and its own times


def is_installed() -> bool:
    """Whether the wheel is there."""
    return importlib.util.find_spec("xllamacpp") is not None


class Llama:
    """One file loaded by llama.cpp; a context manager.

    `build` names the instruction sets that the wheel was built for.
    """

    def __init__(
        self,
        path: Path,
        *,
        flash_attention: bool = False,
        mapped: bool = False,
        n_threads: int = 1,
        within: Callable[..., list[str]] = lambda *words: list(words),
    ) -> None:
        """Start the process and wait until the file is loaded.

        `within` makes of its command line one that runs it elsewhere, as in a cgroup.
        """
        flash = "flash" if flash_attention else "plain"
        load = "mapped" if mapped else "read"
        words = [str(path), flash, load, str(n_threads)]
        self._child = subprocess.Popen(
            within(sys.executable, "-m", "tests.benchmarks.llama_child", *words),
            cwd=_ROOT,
            env={**os.environ, "OMP_NUM_THREADS": str(n_threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        first = self._read()
        self.version = first["version"]
        self.build = " ".join(
            part.split("=")[0].strip()
            for part in first["build"].partition(":")[2].split("|")
            if part.strip().endswith("= 1")
        )

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._child.communicate()

    def prompt_rate(self, tokens: Sequence[int]) -> Timed:
        """Return rows a second of one prompt, computed as one batch."""
        told = self._ask(tokens, 1)
        if told["times"]["prompt_n"] != len(tokens):
            raise RuntimeError("llama.cpp took a part of the prompt from its cache")
        return Timed(told["times"]["prompt_per_second"], told["share"])

    def decode_rate(self, tokens: Sequence[int], n: int) -> Timed:
        """Return tokens a second of `n` single steps after a short prompt."""
        told = self._ask(tokens, n + 1)  # the prompt yields the first token
        return Timed(n / (told["times"]["predicted_ms"] / 1000), told["share"])

    def drawn_rate(self, tokens: Sequence[int], n: int, seed: int) -> float:
        """Return tokens a second of `n` steps whose tokens are drawn at random."""
        told = self._ask(tokens, n + 1, seed=seed)
        return float(n / (told["times"]["predicted_ms"] / 1000))

    def log_probabilities(self, tokens: Sequence[int], n_vocab: int) -> np.ndarray:
        """Return f64 [n_vocab] of the token that follows; NaN where it tells none."""
        top = self._ask(tokens, 1, n_vocab)["top"]
        return np.array([top.get(str(token), np.nan) for token in range(n_vocab)])

    def _ask(
        self, tokens: Sequence[int], n: int, n_top: int = 0, seed: int | None = None
    ) -> dict[str, Any]:
        assert self._child.stdin is not None
        request = {"prompt": list(tokens), "n": n, "n_top": n_top, "seed": seed}
        print(json.dumps(request), file=self._child.stdin, flush=True)
        told = self._read()
        own_s = (told["times"]["prompt_ms"] + told["times"]["predicted_ms"]) / 1000
        undisturbed = not n_top and told["share"] > 0.97
        if undisturbed and told["wall_s"] > own_s * (1 + _MAX_DISAGREEMENT) + 0.01:
            raise RuntimeError(f"llama.cpp says {own_s} s, the clock {told['wall_s']}")
        return told

    def _read(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            code = self._child.wait()
            raise RuntimeError(f"llama.cpp ended with {code}: does it load the file?")
        found: dict[str, Any] = json.loads(line)
        return found
