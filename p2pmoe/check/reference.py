"""A stored reference: what another implementation computed with a model.

An .npz file as numpy.savez and savez_compressed write it, with these arrays:

    prompt  [n] integers           token ids
    rows    [m] integers           positions of the prompt, ascending
    logits  [m, n_vocab] float32   what follows each of these positions
    greedy  [g] integers           the next ids after the prompt at temperature 0

The file is hostile input. The zip's directory is looked at before it is read, an
array's header before its values; sizes in both must agree and stay below the limits
here, so a small file cannot ask for much memory or time; nothing is unpickled or
evaluated. Anything else in the file is left alone. Every refusal is `ReferenceRefused`.
"""

import itertools
import math
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.check.errors import ReferenceRefused
from p2pmoe.model.description import ModelDescription

__all__ = ["Reference", "check_fits", "read_reference"]

MAX_FILE_BYTES = 512 << 20
MAX_LOGITS_BYTES = 256 << 20
MAX_IDS = 1 << 20
_MAX_ENTRIES = 64
_MAX_DIRECTORY_BYTES = 1 << 16
_MAX_HEADER_BYTES = 1024

_END = struct.Struct("<4s4H2IH")  # the zip's end record, without a comment
_ZIP64_LOCATOR_BYTES = 20
_MAGIC = b"\x93NUMPY"
_HEADER = re.compile(
    r"\{'descr': '([<|][a-z][0-9]{1,2})', 'fortran_order': (False|True), "
    r"'shape': \(((?:[0-9]{1,10}, ?)*(?:[0-9]{1,10})?)\), \} *\n",
    re.ASCII,
)
_INTEGERS = frozenset(["<i1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"])
_LOGITS = frozenset({"<f4"})

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reference:
    """A reference whose parts fit each other; `path` is where it was read."""

    path: Path
    prompt: tuple[int, ...]  # at least one id, each below n_vocab
    rows: tuple[int, ...]  # at least one, ascending, each below len(prompt)
    logits: Floats  # [len(rows), n_vocab], all finite
    greedy: tuple[int, ...]  # each below n_vocab; may be empty

    @property
    def n_vocab(self) -> int:
        """How many logits a row has."""
        return int(self.logits.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """What the first bytes of an .npy file say; `at` is where the values begin."""

    dtype: np.dtype[np.generic]
    fortran: bool
    shape: tuple[int, ...]
    at: int

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_reference(path: Path) -> Reference:
    """Read a reference file.

    Raises:
        ReferenceRefused: it cannot be read, or is not what the module describes.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ReferenceRefused(path, "is no regular file")
        with path.open("rb") as file:
            _check_directory(path, file)
            with zipfile.ZipFile(file) as archive:
                arrays = _arrays(path, archive)
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise ReferenceRefused(path, f"cannot be read: {reason}") from exc
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        NotImplementedError,
        ValueError,
    ) as exc:
        raise ReferenceRefused(path, f"is no valid .npz file: {exc}") from exc
    return _checked(path, arrays)


def check_fits(reference: Reference, description: ModelDescription) -> None:
    """Refuse a reference that cannot be of this model; ReferenceRefused."""
    if reference.n_vocab != description.n_vocab:
        raise ReferenceRefused(
            reference.path,
            f"has {reference.n_vocab} logits a row, the model has "
            f"{description.n_vocab} tokens",
        )
    n_tokens = len(reference.prompt) + len(reference.greedy)
    if n_tokens > description.n_context:
        raise ReferenceRefused(
            reference.path,
            f"has {n_tokens} tokens, the model's context {description.n_context}",
        )


def _check_directory(path: Path, file: IO[bytes]) -> None:
    """Look at the end of the zip before the directory that it tells of is read."""
    n_bytes = file.seek(0, 2)
    if n_bytes > MAX_FILE_BYTES:
        raise ReferenceRefused(path, f"has {n_bytes} bytes, above {MAX_FILE_BYTES}")
    tail = _END.size + _ZIP64_LOCATOR_BYTES
    if n_bytes < tail:
        raise ReferenceRefused(path, "is no .npz file")
    file.seek(n_bytes - tail)
    last = file.read(tail)
    magic, *_, n_entries, directory_bytes, _, comment = _END.unpack(last[-_END.size :])
    if magic != b"PK\x05\x06" or comment or last.startswith(b"PK\x06\x07"):
        raise ReferenceRefused(path, "is no .npz file")
    if n_entries > _MAX_ENTRIES or directory_bytes > _MAX_DIRECTORY_BYTES:
        raise ReferenceRefused(
            path,
            f"names {n_entries} arrays in {directory_bytes} bytes, more than a "
            "reference has",
        )
    file.seek(0)


def _arrays(path: Path, archive: zipfile.ZipFile) -> dict[str, Array]:
    """Read the four arrays, each within its own limit."""
    limits = {
        "prompt": (_INTEGERS, MAX_IDS * 8),
        "rows": (_INTEGERS, MAX_IDS * 8),
        "logits": (_LOGITS, MAX_LOGITS_BYTES),
        "greedy": (_INTEGERS, MAX_IDS * 8),
    }
    entries = archive.infolist()
    arrays = {}
    for name, (kinds, max_bytes) in limits.items():
        found = [entry for entry in entries if entry.filename == f"{name}.npy"]
        if len(found) != 1:
            raise ReferenceRefused(path, f"has {len(found)} arrays named {name!r}")
        arrays[name] = _array(path, archive, found[0], kinds, max_bytes)
    return arrays


def _array(
    path: Path,
    archive: zipfile.ZipFile,
    entry: zipfile.ZipInfo,
    kinds: frozenset[str],
    max_bytes: int,
) -> Array:
    name = entry.filename
    plain = entry.compress_type in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
    if entry.flag_bits & 1 or not plain:
        raise ReferenceRefused(path, f"{name} is encrypted, or not stored or deflated")
    with archive.open(entry) as stream:
        header = _header(path, name, stream, kinds)
        if header.n_bytes > max_bytes:
            raise ReferenceRefused(
                path, f"{name} has {header.n_bytes} bytes, more than {max_bytes}"
            )
        if header.at + header.n_bytes != entry.file_size:
            raise ReferenceRefused(
                path,
                f"{name} of shape {header.shape} needs {header.n_bytes} bytes, has "
                f"{entry.file_size - header.at}",
            )
        values = stream.read(header.n_bytes)
        if len(values) != header.n_bytes or stream.read(1):
            raise ReferenceRefused(path, f"{name} has not the bytes that it tells of")
    flat = np.frombuffer(values, header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def _header(path: Path, name: str, stream: IO[bytes], kinds: frozenset[str]) -> _Header:
    """Read the header of an .npy file as numpy writes it, versions 1 and 2."""
    start = stream.read(8)
    width = {b"\x01\x00": 2, b"\x02\x00": 4}.get(start[6:], 0)
    length = int.from_bytes(stream.read(width), "little")
    if start[:6] != _MAGIC or not width or length > _MAX_HEADER_BYTES:
        raise ReferenceRefused(path, f"{name} is no array")
    match = _HEADER.fullmatch(stream.read(length).decode("latin-1"))
    if match is None:
        raise ReferenceRefused(path, f"{name} is no array of plain numbers")
    if match[1] not in kinds:
        raise ReferenceRefused(
            path, f"{name} is of type {match[1]}, not {' or '.join(sorted(kinds))}"
        )
    return _Header(
        dtype=np.dtype(match[1]),
        fortran=match[2] == "True",
        shape=tuple(int(size) for size in match[3].split(",") if size.strip()),
        at=8 + width + length,
    )


def _checked(path: Path, arrays: Mapping[str, Array]) -> Reference:
    """Check the parts against each other."""
    logits = arrays["logits"]
    if logits.ndim != 2 or 0 in logits.shape:
        raise ReferenceRefused(path, f"logits of shape {logits.shape} are no rows")
    n_rows, n_vocab = logits.shape
    if not np.isfinite(logits.astype(np.float32, copy=False)).all():
        raise ReferenceRefused(path, "logits hold a value that is not finite")
    prompt = _integers(path, arrays, "prompt", n_vocab)
    rows = _integers(path, arrays, "rows", len(prompt))
    if not prompt or len(rows) != n_rows:
        raise ReferenceRefused(
            path,
            f"{len(rows)} rows of a prompt of {len(prompt)} ids for {n_rows} rows "
            "of logits",
        )
    if any(later <= row for row, later in itertools.pairwise(rows)):
        raise ReferenceRefused(path, "rows do not ascend")
    return Reference(
        path=path,
        prompt=prompt,
        rows=rows,
        logits=np.ascontiguousarray(logits, np.float32),
        greedy=_integers(path, arrays, "greedy", n_vocab),
    )


def _integers(
    path: Path, arrays: Mapping[str, Array], name: str, end: int
) -> tuple[int, ...]:
    """Return integers from 0 to below `end`."""
    array = arrays[name]
    if array.ndim != 1:
        raise ReferenceRefused(path, f"{name} of shape {array.shape} is no list")
    values = tuple(int(value) for value in array.tolist())
    for value in values:
        if not 0 <= value < end:
            raise ReferenceRefused(path, f"{name} holds {value}, not 0 to {end - 1}")
    return values
