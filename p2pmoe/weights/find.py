"""What a path that a person names means: GGUF files, or a safetensors folder.

    FILE.safetensors, FILE.index.json, config.json   its folder, which has a config.json
    any other file                                   that GGUF file
    a folder with config.json and *.safetensors      that folder, GGUF files or not
    another folder                                   its one GGUF file, or one set

A set's parts are named NAME-00001-of-00003.gguf and so on; any part stands for the set.
In a folder, hidden files and what lies beside models on hubs (vision projectors,
importance matrices) are passed over. A choice is never guessed: more than one is an
error that lists them. Only names are looked at; nothing is opened.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from p2pmoe.weights.errors import ModelFileError, UnsupportedModel, listed

__all__ = [
    "GgufPart",
    "PartName",
    "SafetensorsFolder",
    "find_model",
    "names_like",
    "parse_part_name",
    "part_name",
]

_PART = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf")
_PIECE = re.compile(
    r".+\.gguf[.-](?:split-?[a-z]+|part-?[0-9]+(?:-?of-?[0-9]+)?)"  # of lower case
)
_BESIDE_MODELS = re.compile(r"mmproj|imatrix", re.IGNORECASE)
_PICKLED = (".bin", ".pt", ".pth")
_WEIGHTS = (".gguf", ".safetensors")
_WITHOUT_WEIGHTS = (".json", ".jinja", ".model", ".txt", ".md")
_MAX_LOOKED_AT = 1000  # names beside one that is not there
_CONFIG = "config.json"
_ADAPTER = "adapter_config.json"
_ADAPTER_WEIGHTS = "adapter_model"
_FETCH_ALL = "fetch the whole folder of the model"
_NAME_HERE = "name a file or folder of this machine, or `pocket`; hubs are not asked"
_NAME_A_FILE = "name a GGUF file, a part of a set, or a safetensors folder"


@dataclass(frozen=True, slots=True)
class SafetensorsFolder:
    """A folder with config.json and *.safetensors."""

    folder: Path


@dataclass(frozen=True, slots=True)
class GgufPart:
    """A GGUF file, perhaps one part of a set."""

    path: Path


@dataclass(frozen=True, slots=True)
class PartName:
    """What the name of a part says: `number` counts from 1."""

    stem: str
    number: int
    count: int


def find_model(path: Path) -> SafetensorsFolder | GgufPart:
    """Return what `path` means.

    Raises:
        UnsupportedModel: Weights in a format that is not read here.
        ModelFileError: A folder without a model, or with more than one.
    """
    if _holds(path.is_dir):
        return _in_folder(path)
    name = path.name.lower()
    if name.endswith(_PICKLED):
        raise _pickled(path)
    if _PIECE.fullmatch(name):
        reason = "is a piece of a file that was cut by bytes"
        advice = "join all pieces in order: cat PIECES > MODEL.gguf"
        raise ModelFileError(path, reason, advice=advice)
    if name.endswith((".safetensors", ".index.json")) or name == _CONFIG:
        if not _holds(path.is_file):
            raise ModelFileError(path, "is no file", advice=names_like(path))
        if not (path.parent / _CONFIG).is_file():
            reason = f"has no {_CONFIG} beside it"
            raise ModelFileError(path, reason, advice=_FETCH_ALL)
        return SafetensorsFolder(path.parent)
    if name.endswith(_WITHOUT_WEIGHTS) and _holds(path.is_file):
        reason = "lies beside a model and holds no weights"
        raise ModelFileError(path, reason, advice="name the folder that it lies in")
    return GgufPart(path)


def names_like(path: Path) -> str:
    """Return advice for a path that is not there: the models beside it with its name.

    What differs may be signs, small letters, the ending or a few letters.
    """
    try:
        names = [p.name for p in islice(path.parent.iterdir(), _MAX_LOOKED_AT)]
    except OSError:
        return _NAME_HERE
    stems: dict[str, list[str]] = {}
    for name in names:
        if (path.parent / name).is_dir() or name.lower().endswith(_WEIGHTS):
            stems.setdefault(_bare(name), []).append(name)
    wanted = _bare(path.name)
    near = [wanted] if wanted in stems else get_close_matches(wanted, stems, cutoff=0.8)
    found = [str(path.parent / name) for stem in near for name in stems[stem]]
    return f"did you mean {listed(found)}?" if found else _NAME_HERE


def _bare(name: str) -> str:
    """Return the letters and digits of a name without its ending."""
    stem = name.lower()
    for ending in _WEIGHTS:
        stem = stem.removesuffix(ending)
    return "".join(filter(str.isalnum, stem))


def _holds(check: Callable[[], bool]) -> bool:
    """Return what a look at a path says; no for a name too long to be one."""
    try:
        return check()
    except OSError:
        return False


def parse_part_name(path: Path) -> PartName | None:
    """Read a file's name as that of a part of a set; None if it is none."""
    match = _PART.fullmatch(path.name)
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    if not 1 <= number <= count:
        return None
    return PartName(match["stem"], number, count)


def part_name(stem: str, number: int, count: int) -> str:
    """Return the name of one part of a set."""
    return f"{stem}-{number:05d}-of-{count:05d}.gguf"


def _in_folder(folder: Path) -> SafetensorsFolder | GgufPart:
    names = _names(folder)
    if _ADAPTER in names and not _has_weights_of_its_own(names):
        reason = "holds an adapter (LoRA), which changes a model and is none"
        advice = "merge it into its base model, or name that"
        raise UnsupportedModel(folder, reason, advice=advice)
    has_config = _CONFIG in names
    has_safetensors = any(name.endswith(".safetensors") for name in names)
    if has_config and has_safetensors:
        return SafetensorsFolder(folder)
    models = _models(folder, names)
    if len(models) == 1:
        return GgufPart(models[0])
    if models:
        reason = f"holds {len(models)} models: {listed([m.name for m in models])}"
        raise ModelFileError(folder, reason, advice="name one of them")
    if has_safetensors:
        reason = f"holds safetensors but no {_CONFIG}"
        raise ModelFileError(folder, reason, advice=_FETCH_ALL)
    if any(name.endswith(_PICKLED) for name in names):
        raise _pickled(folder)
    raise ModelFileError(folder, "holds no model", advice=_elsewhere(folder, names))


def _has_weights_of_its_own(names: list[str]) -> bool:
    return any(
        name.endswith((".safetensors", ".gguf"))
        and not name.startswith(_ADAPTER_WEIGHTS)
        for name in names
    )


def _models(folder: Path, names: list[str]) -> list[Path]:
    """Return the GGUF files of a folder, the first part there is for each set."""
    found: dict[tuple[str, int], Path] = {}
    for name in names:
        if name.lower().endswith(".gguf") and not _BESIDE_MODELS.search(name):
            part = parse_part_name(Path(name))
            key = (part.stem, part.count) if part else (name, 0)
            found.setdefault(key, folder / name)
    return list(found.values())


def _elsewhere(folder: Path, names: list[str]) -> str:
    """Return advice: the folders below this one that do hold models."""
    inner = [name for name in names if _holds_weights(folder / name)]
    return f"models lie in: {listed(inner)}" if inner else _NAME_A_FILE


def _holds_weights(folder: Path) -> bool:
    """Return whether there is something in a folder, if it is one; no if unreadable."""
    try:
        names = [path.name.lower() for path in folder.iterdir()]
    except OSError:
        return False
    return any(name.endswith(_WEIGHTS) for name in names)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
    except OSError as exc:
        raise ModelFileError(folder, f"cannot be listed: {exc.strerror}") from exc


def _pickled(path: Path) -> UnsupportedModel:
    reason = "PyTorch's pickled files are never opened"
    advice = "fetch the model as safetensors or GGUF"
    return UnsupportedModel(path, reason, advice=advice)
