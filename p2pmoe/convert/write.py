"""Write a model as one GGUF file, tensor by tensor, a few MiB at a time.

The file is written beside its place under a name of its own, brought to the disk, and
renamed: whoever looks sees the whole file or none, and an interrupt, a full disk or a
bad tensor leaves nothing behind (see draft.py). It is named as a GGUF file and not as a
part of a set: it never takes the place of other weights.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mobile_worker.arithmetic.formats.block_format import block_size
from p2pmoe.convert.container import front_of_file, padded
from p2pmoe.convert.draft import draft_of
from p2pmoe.convert.errors import TargetUnusable
from p2pmoe.convert.precision import PlannedTensor
from p2pmoe.convert.quantize import decode, encode
from p2pmoe.weights.find import parse_part_name
from p2pmoe.weights.metadata import MetadataValue
from p2pmoe.weights.model_file import ModelFile

__all__ = ["Target", "check_target", "write_model"]

_STEP_VALUES: Final = 1 << 18  # numbers at a time, whole blocks of every format
_COPY_BYTES: Final = 1 << 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The file to write; with `force`, one that is there is replaced."""

    path: Path
    force: bool = False


def check_target(target: Target) -> None:
    """Look whether the file may be written, before any work.

    Raises:
        TargetUnusable: it is there, or its folder is not, or its name is of another
            kind of file.
    """
    path = target.path
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = 0
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise TargetUnusable(f"{path} cannot be written: {reason}") from exc
    if stat.S_ISDIR(mode):
        raise TargetUnusable(f"{path} is a folder", advice="name a file in it")
    if mode and not stat.S_ISREG(mode):
        raise TargetUnusable(f"{path} is no regular file")
    _check_name(path)
    if (mode or path.is_symlink()) and not target.force:
        advice = "name another file, or replace it with --force"
        raise TargetUnusable(f"{path} exists already", advice=advice)
    if not path.parent.is_dir():
        raise TargetUnusable(f"there is no folder {path.parent}")


def _check_name(path: Path) -> None:
    if path.suffix.lower() != ".gguf":
        advice = f"name it {path.name}.gguf"
        raise TargetUnusable(f"{path} is no name of a GGUF file", advice=advice)
    part = parse_part_name(path)
    if part is not None and part.count > 1:
        advice = f"name it {part.stem}.gguf: one whole file is written"
        raise TargetUnusable(f"{path} is named as a part of a set", advice=advice)


def write_model(
    source: ModelFile,
    metadata: Mapping[str, MetadataValue],
    plan: Sequence[PlannedTensor],
    target: Target,
    tell: Callable[[str, float], None] = lambda _, __: None,
) -> int:
    """Write the file and return its bytes; `tell` is told a tensor and the share done.

    Raises:
        TargetUnusable: it cannot be written: full, read-only, or there meanwhile.
        ConversionFailed: a tensor is not finite, or too large for its format.
        ModelFileError: the source cannot be read.
    """
    check_target(target)
    front = front_of_file(metadata, plan)
    _check_room(target.path, len(front) + sum(padded(t.n_bytes) for t in plan))
    try:
        with draft_of(target.path) as draft:
            n_bytes = draft.file.write(front)
            for chunk in _chunks(source, plan, tell):
                n_bytes += draft.file.write(chunk)
            check_target(target)
            draft.finish()
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise TargetUnusable(f"{target.path} cannot be written: {reason}") from exc
    _settle(target.path.parent)
    return n_bytes


def _check_room(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        reason = f"{path} would need {needed} bytes, its disk has {free} free"
        raise TargetUnusable(reason, advice="free some, or name another disk")


def _chunks(
    source: ModelFile,
    plan: Sequence[PlannedTensor],
    tell: Callable[[str, float], None],
) -> Iterator[bytes]:
    """Give the bytes of every tensor, each filled up to the alignment."""
    total = sum(tensor.source.n_bytes for tensor in plan) or 1
    done = 0
    for tensor in plan:
        n_bytes = 0
        step = _step(tensor)
        for start in range(0, tensor.source.n_bytes, step):
            tell(tensor.source.name, done / total)
            taken = min(step, tensor.source.n_bytes - start)
            raw = source.read_range(tensor.source.offset + start, taken)
            chunk = raw if tensor.is_copy else _converted(raw, tensor)
            n_bytes += len(chunk)
            done += taken
            yield chunk
        yield bytes(padded(n_bytes) - n_bytes)


def _step(tensor: PlannedTensor) -> int:
    """Return how many of its bytes are taken at once: blocks, whatever the rows are."""
    if tensor.is_copy:
        return _COPY_BYTES
    values, size = block_size(tensor.source.format)
    return _STEP_VALUES // values * size


def _converted(raw: bytes, tensor: PlannedTensor) -> bytes:
    values = decode(raw, tensor.source.format, tensor.source.name)
    return encode(values, tensor.format, tensor.source.name)


def _settle(folder: Path) -> None:
    """Bring the new name to the disk, where the system can do that for a folder."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
