"""The market's targets, one part a file; docs/reference/benchmarks.md has the figures.

A part is a module `market_<name>.py` with `run() -> list[Figure]`.
"""

import importlib

from tests.benchmarks.figures import Figure

__all__ = ["run"]

_PARTS = (
    "assigning",  # a million devices: some 100 s and 3 GiB
    "placing",
    "strategies",
    "quiet",
    "canaries",
    "first_serving",
)


def run() -> list[Figure]:
    """Measure every part."""
    figures: list[Figure] = []
    for name in _PARTS:
        figures += importlib.import_module(f"tests.benchmarks.market_{name}").run()
    return figures
