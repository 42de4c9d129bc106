"""The runs that were stored: a folder with one JSON file each.

`TIME-DIGEST-N.json`: when it was made and the first 16 digits of the configuration's
digest, so that what is asked most, whether a configuration has been evaluated, reads
the files of that digest alone. Written beside and renamed: a file is whole or not
there. What is read may have been written by anyone: sizes are bounded, and a file that
is no run is named and skipped, or refused where it was asked for.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from p2pmoe.errors import ConfigurationError
from p2pmoe.evaluate.configuration import Configuration
from p2pmoe.evaluate.errors import RunUnreadable
from p2pmoe.evaluate.reading import Misread, parse_object
from p2pmoe.evaluate.run_record import EvaluationRun, read_run

__all__ = [
    "FOLDER_NAME",
    "MAX_RUN_BYTES",
    "find_run",
    "is_evaluated",
    "load_run",
    "save_run",
    "stored_runs",
]

FOLDER_NAME: Final = "evaluations"  # below the backbone's data folder
MAX_RUN_BYTES: Final = 64 << 20
_MAX_FILES: Final = 10_000
_MAX_SAME: Final = 1000
_DIGITS: Final = 16
_UNKNOWN: Final = "unknown"


def save_run(folder: Path, run: EvaluationRun) -> Path:
    """Store a run and return its file; ConfigurationError if that cannot be done."""
    stamp = run.made.replace("-", "").replace(":", "")
    stem = f"{stamp}-{run.digest[:_DIGITS] or _UNKNOWN}"
    beside = folder / f".{stem}.{os.getpid()}.part"
    text = json.dumps(run.document(), ensure_ascii=False, allow_nan=False)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.write_text(text + "\n", encoding="utf-8")
        return _place(beside, folder, stem)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        reason = (error.strerror or str(error)).lower()
        raise ConfigurationError(
            f"cannot store the run in {folder}: {reason}",
            advice="name a folder that can be written with --save",
        ) from error


def _place(beside: Path, folder: Path, stem: str) -> Path:
    """Give the file a name that is free, its number behind all of its second."""
    same = folder.glob(f"{stem.partition('-')[0]}-*.json")
    first = 1 + max((_number(path) for path in same), default=0)
    for number in range(first, first + _MAX_SAME):
        path = folder / f"{stem}-{number}.json"
        try:
            os.link(beside, path)
        except FileExistsError:
            continue
        except OSError:  # a file system without links
            if path.exists():
                continue
            beside.replace(path)
            return path
        beside.unlink()
        return path
    raise FileExistsError(f"{_MAX_SAME} runs of the same second")


def load_run(path: Path) -> EvaluationRun:
    """Return the run stored in a file.

    Raises:
        RunUnreadable: there is none, it is too large, or it is no run.
    """
    try:
        if not path.is_file():
            raise RunUnreadable(f"there is no run {path}")
        with path.open("rb") as file:
            raw = file.read(MAX_RUN_BYTES + 1)
        if len(raw) > MAX_RUN_BYTES:
            raise RunUnreadable(f"{path} is larger than {MAX_RUN_BYTES} bytes")
        return read_run(parse_object(raw.decode("utf-8")))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RunUnreadable(f"cannot read {path}: {reason}") from error
    except UnicodeDecodeError as error:
        raise RunUnreadable(f"{path} is not UTF-8") from error
    except Misread as error:
        raise RunUnreadable(f"{path} {error}") from error


def find_run(name: str, folder: Path) -> Path:
    """Return the file that `name` means: a path, or how names in `folder` begin or end.

    A digest, or its beginning, means the newest run of it; so does "last", of all.

    Raises:
        RunUnreadable: nothing in the folder is called so.
    """
    path = Path(name)
    if path.is_file() or os.sep in name or name.endswith(".json"):
        return path if path.is_file() else folder / path.name
    files = _files(folder)
    if name == "last" and files:
        return files[-1]
    digits = name[:_DIGITS]
    fitting = [p for p in files if len(digits) >= 4 and f"-{digits}" in p.name]
    if not fitting:
        raise RunUnreadable(f"no run in {folder} is called {name[:80]!r}")
    return fitting[-1]


def stored_runs(
    folder: Path, skipped: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[Path, EvaluationRun]]:
    """Yield the runs of a folder, oldest first; `skipped` gets what is no run."""
    for path in _files(folder):
        try:
            yield path, load_run(path)
        except RunUnreadable as error:
            skipped(str(error))


def is_evaluated(folder: Path, configuration: Configuration) -> bool:
    """Say whether a run of exactly this configuration is on record.

    Never, while its weights are not known: the run might be of others.
    """
    if not configuration.is_known:
        return False
    digits = configuration.digest[:_DIGITS]
    for path in _files(folder):
        if f"-{digits}-" not in path.name:
            continue
        try:
            if load_run(path).digest == configuration.digest:
                return True
        except RunUnreadable:
            continue
    return False


def _files(folder: Path) -> list[Path]:
    """Return the files that are called as runs are, by time."""
    try:
        names = [p for p in folder.glob("*Z-*-*.json") if p.is_file()]
    except OSError:
        return []
    return sorted(names, key=_order)[-_MAX_FILES:]


def _order(path: Path) -> tuple[str, int, str]:
    return path.stem.partition("-")[0], _number(path), path.name


def _number(path: Path) -> int:
    """Return which run of its second it is."""
    number = path.stem.rpartition("-")[2][:9]
    return int(number) if number.isascii() and number.isdecimal() else 0
