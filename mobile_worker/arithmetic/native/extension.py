"""The extension `_kernel` as this package sees it, and how it is loaded.

It is optional: an install without a compiler has none, and everything works without.
"""

import importlib
from pathlib import Path
from typing import Final, Protocol, cast

from mobile_worker.arithmetic.errors import KernelUnavailable

__all__ = ["BUILD_AGAIN", "Extension", "build_again", "load_extension"]

_MODULE = "mobile_worker.arithmetic.native._kernel"
_IN_A_CLONE: Final = "rm -f .venv/.installed && make .venv/.installed"
# Without --no-cache-dir pip takes the wheel that it built without a compiler.
_BY_PIP: Final = (
    "pip install --force-reinstall --no-deps --no-cache-dir p2pmoe, "
    "or the folder that it came from"
)


def build_again(home: Path) -> str:
    """Return the command that builds the extension anew; `home` holds the packages."""
    return _IN_A_CLONE if (home / "Makefile").exists() else _BY_PIP


BUILD_AGAIN: Final = build_again(Path(__file__).resolve().parents[3])


class Extension(Protocol):
    """What `c/kernel_module.c` offers; its head says what the arguments are.

    Outcomes: 0 done, 1 a value is not finite, 2 an impossible code or scale. ValueError
    if a buffer does not fit the shapes.
    """

    def sets(self) -> tuple[str, ...]:
        """Return the instruction sets that run here, best first."""
        ...

    def product(self, *arguments: object) -> int:
        """Multiply rows with a matrix into a place; returns the outcome."""
        ...

    def experts(self, *arguments: object) -> int:
        """Run rows through experts into places; returns the outcome."""
        ...

    def code_rows(self, *arguments: object) -> int:
        """Code rows with q = 127 into places; returns the outcome."""
        ...

    def hold_matrix(self, matrix: object) -> object:
        """Check a matrix and hold its bytes for as long as the result lives."""
        ...

    def hold_expert(self, expert: object) -> object:
        """Check an expert and hold its bytes for as long as the result lives."""
        ...

    def linear(self, *arguments: object) -> int:
        """Multiply rows of floats with held matrices; returns the outcome."""
        ...

    def routed(self, *arguments: object) -> int:
        """Run rows of floats through their held experts; returns the outcome."""
        ...


def load_extension() -> Extension:
    """Return the extension, or raise KernelUnavailable if it was not built."""
    try:
        return cast("Extension", importlib.import_module(_MODULE))
    except ImportError as error:
        raise KernelUnavailable(
            "the native kernel was not built",
            advice="install a C compiler (it is several times faster), then "
            f"{BUILD_AGAIN}",
        ) from error
