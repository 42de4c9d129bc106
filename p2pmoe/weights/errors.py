"""Errors of model files, leaves of `p2pmoe.errors`.

    P2pmoeError
      ModelUnavailable         a model named by its manifest cannot be had
      ModelFileError           a model file is truncated, foreign or malicious
        ModelFileTruncated     it ends before what its header promises
        NotHere                what is asked for was never fetched to this machine
        UnsupportedModel       well formed, but this version cannot serve it

The message names the file, and the tensor and the field where there is one.
"""

from collections.abc import Iterable
from pathlib import Path

from p2pmoe.errors import P2pmoeError

__all__ = [
    "ModelFileError",
    "ModelFileTruncated",
    "ModelUnavailable",
    "NotHere",
    "UnsupportedModel",
    "another_file",
    "listed",
]

_MAX_SHOWN = 80
_POINTER = b"version https://git-lfs."  # what Git leaves where it has not fetched
_MAX_LISTED = 32
_MAX_LISTED_NAME = 120


class ModelFileError(P2pmoeError):
    """A model file was refused; says which file, tensor and field, and why."""

    advice = "compare the file's SHA-256 with its source, or fetch it again"

    def __init__(
        self,
        path: Path,
        reason: str,
        *,
        tensor: str | None = None,
        field: str = "",
        advice: str | None = None,
    ) -> None:
        """Say that `path` is bad because of `reason`, in `tensor` and `field`.

        `advice` overrides the class's own.
        """
        places = [str(path)]
        if tensor is not None:
            places.append(f"tensor {tensor[:_MAX_SHOWN]!r}")
        if field:
            places.append(field)
        super().__init__(f"{', '.join(places)}: {reason}", advice=advice)
        self.path = path
        self.tensor = tensor
        self.field = field
        self.reason = reason


class ModelUnavailable(P2pmoeError):
    """A model named by the address of its manifest cannot be had from its servers."""

    advice = "check the address and its servers; what was fetched is kept"


class ModelFileTruncated(ModelFileError):
    """The file ends before what its header promises."""


class NotHere(ModelFileError):
    """What is asked for was never fetched to this machine: experts, mostly."""

    advice = "let a worker compute it, or serve the whole model"


class UnsupportedModel(ModelFileError):
    """A well-formed model file that this version cannot serve."""

    advice = "use another file of the model, or a newer version of this program"


def another_file(
    path: Path, start: bytes, reason: str, *, field: str
) -> ModelFileError:
    """Return the error for a file that is of another kind, given its first bytes.

    One that only points to the model is told from all others.
    """
    if not start.startswith(_POINTER):
        return ModelFileError(path, reason, field=field)
    reason = "is a Git LFS pointer to the model, not the model"
    return ModelFileError(path, reason, advice="fetch the file itself: `git lfs pull`")


def listed(names: Iterable[str]) -> str:
    """Return names, sorted, for one line of a message: all, or the first of many."""
    ordered = sorted(names)
    shown = ", ".join(name[:_MAX_LISTED_NAME] for name in ordered[:_MAX_LISTED])
    more = len(ordered) - _MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
