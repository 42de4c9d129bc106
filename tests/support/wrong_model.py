"""One model file that is wrong in one way, and what must be said of it.

`command` says which one must refuse it: `inspect` what the header shows, `serve` what
shows when the model is loaded. In `says` stands a part of the line that only this cause
gives.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["WrongModel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongModel:
    """A path, what refuses it, and words of the line that does."""

    name: str
    path: Path
    says: str
    command: Literal["inspect", "serve"] = "inspect"
