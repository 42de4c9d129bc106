"""Which files of a folder hold its weights; names are checked before they are used.

Either `model.safetensors` alone, or the files that `model.safetensors.index.json` names
in its weight_map. A name is a plain file name: no separator, no NUL, no leading dot, at
most 255 bytes, ending in .safetensors (fault B06). All names are checked, and all
missing files listed, before the first is opened.

A file may be a link if it leads to a regular file in the folder itself or, where the
folder is a snapshot of the hub's cache (`snapshots/REVISION`), to that cache's own
`blobs`: so the hub's clients lay files out. A link that leads anywhere else is refused.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated, listed
from p2pmoe.weights.huggingface.strict_json import parse_object

__all__ = [
    "CONFIG_NAME",
    "INDEX_NAME",
    "WeightFiles",
    "inside",
    "is_there",
    "read_small",
    "weight_files",
]

CONFIG_NAME = "config.json"
INDEX_NAME = "model.safetensors.index.json"
_SINGLE_NAME = "model.safetensors"
_SUFFIX = ".safetensors"
_MAX_CONFIG_BYTES = 1 << 22
_MAX_INDEX_BYTES = 1 << 27
_MAX_NAME_BYTES = 255
_MAX_FILES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFiles:
    """Files of weights; `weight_map` says where each tensor is, if known."""

    names: tuple[str, ...]
    weight_map: dict[str, str] | None


def weight_files(folder: Path) -> WeightFiles:
    """Return the folder's files, all of which exist and lie where they may.

    Raises:
        ModelFileError: no such files, a name that is none, a link out of the folder, or
            files missing: all of them are listed.
    """
    if is_there(folder / _SINGLE_NAME):
        found = WeightFiles(names=(_SINGLE_NAME,), weight_map=None)
    elif is_there(folder / INDEX_NAME):
        found = _indexed(folder)
    else:
        reason = f"has neither {_SINGLE_NAME} nor {INDEX_NAME}"
        raise ModelFileError(folder, reason)
    missing = [name for name in found.names if not is_there(folder / name)]
    if missing:
        reason = f"lacks {len(missing)} of {len(found.names)} files: {listed(missing)}"
        advice = "fetch the missing files, or name a complete folder"
        raise ModelFileTruncated(folder, reason, advice=advice)
    for name in found.names:
        inside(folder, name)
    return found


def is_there(path: Path) -> bool:
    """Return whether something is at `path`; no where one may not look."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def inside(folder: Path, name: str) -> Path:
    """Return the file itself behind `name`; ModelFileError if it leads elsewhere."""
    real = Path(os.path.realpath(folder / name))
    home = Path(os.path.realpath(folder))
    homes = [home]
    if home.parent.name == "snapshots":
        homes.append(home.parent.parent / "blobs")
    if real.parent not in homes:
        reason = "is a link that leads out of the folder"
        advice = "put the file itself there, or name the folder it lies in"
        raise ModelFileError(folder / name, reason, advice=advice)
    return real


def read_small(folder: Path, name: str, limit: int = _MAX_CONFIG_BYTES) -> bytes:
    """Return a file of the folder, of `limit` bytes at most.

    Raises:
        ModelFileError: it cannot be read, is larger, is no regular file, or leads out
            of the folder.
    """
    file = OpenFile(inside(folder, name))
    file.path = folder / name
    try:
        if file.n_bytes > limit:
            reason = f"has {file.n_bytes} bytes, more than {limit}"
            raise ModelFileError(file.path, reason)
        place = bytearray(file.n_bytes)
        file.read_into(0, memoryview(place))
        return bytes(place)
    finally:
        file.close()


def _indexed(folder: Path) -> WeightFiles:
    path = folder / INDEX_NAME
    index = parse_object(
        path, read_small(folder, INDEX_NAME, _MAX_INDEX_BYTES), "index"
    )
    entries = index.get("weight_map")
    if not isinstance(entries, dict) or not entries:
        raise ModelFileError(path, "is no object of names", field="key 'weight_map'")
    weight_map: dict[str, str] = {}
    checked: set[str] = set()
    for tensor, name in entries.items():
        if not tensor.isprintable() or len(tensor) > _MAX_NAME_BYTES:
            reason = f"{tensor[:80]!r} is no tensor name"
            raise ModelFileError(path, reason, field="key 'weight_map'")
        if not isinstance(name, str):
            reason = f"{str(name)[:80]!r} is no file name"
            raise ModelFileError(path, reason, tensor=tensor, field="weight_map")
        if name not in checked:
            _check_name(path, tensor, name)
            checked.add(name)
        weight_map[tensor] = name
    if len(checked) > _MAX_FILES:
        raise ModelFileError(path, f"{len(checked)} files are more than {_MAX_FILES}")
    return WeightFiles(names=tuple(sorted(checked)), weight_map=weight_map)


def _check_name(path: Path, tensor: str, name: str) -> None:
    is_plain = (
        name.isprintable()
        and not name.startswith(".")
        and not set(name) & set("/\\:")
        and name.endswith(_SUFFIX)
        and len(name.encode()) <= _MAX_NAME_BYTES
    )
    if not is_plain:
        reason = f"{name[:80]!r} is no plain name of a {_SUFFIX} file"
        raise ModelFileError(path, reason, tensor=tensor, field="weight_map")
