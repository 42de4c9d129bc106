"""The trace file: JSON lines, one object each, in this order.

    {"format": "p2pmoe-trace", "version": 2, "made_by": "p2pmoe 0.8"}
    {"input": {"prompt": "...", "max_tokens": 64, "temperature": 0.0}}
    {"configuration": {"profile": "r16", ...}}          name to text, both short
    {"pass": {"start_s": 12.5, "seconds": 0.08, ...}}   see passes/documents.py
    {"position": 0, "hashes": [[3, null, "0123456789abcdef"], [3, 5, "..."], ...]}
    ...                               passes as they were told, positions ascending
    {"end": "length", "text": "...", "usage": {"prompt_tokens": 9, ...}}

A hash is [layer, expert, 16 hexadecimal digits]: of the layer's input where `expert` is
null, else of that expert's result; ascending, the input first. `end` is why the run
ended, null where it failed. Fields that a reader does not know are passed over. Version
1 has no passes.

Whoever wrote a file, reading it takes bounded memory (a line at a time) and raises
`TraceUnreadable` for the first line that is not as above. Pure but for `readline`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, Final, TypeAlias, TypeVar

from p2pmoe.errors import P2pmoeError
from p2pmoe.evaluate.reading import Misread, Record, parse_object
from p2pmoe.passes.documents import PassUnreadable, pass_document, read_pass
from p2pmoe.passes.values import PassTrace

__all__ = [
    "CallHash",
    "Configured",
    "Ended",
    "Given",
    "PositionHashes",
    "TraceRecord",
    "TraceUnreadable",
    "bounded_lines",
    "first_line",
    "line_of",
    "read_call_hash",
    "read_trace",
]

FORMAT: Final = "p2pmoe-trace"
VERSION: Final = 2
MAX_LINE_BYTES: Final = 8 << 20
MAX_POSITION: Final = 1 << 31
MAX_LAYER: Final = 1 << 20
_MAX_CALLS: Final = 1 << 17
_MAX_FIELDS: Final = 1 << 10
_MAX_TEXT: Final = MAX_LINE_BYTES
_HEX: Final = frozenset("0123456789abcdef")

T = TypeVar("T")
Scalar: TypeAlias = str | int | float | bool | None


class TraceUnreadable(P2pmoeError):
    """A file is no trace, or breaks off."""

    advice = "make one with `p2pmoe run --trace FILE`"


@dataclass(frozen=True, slots=True, order=True)
class CallHash:
    """The hash of a layer's input (`expert` -1) or of an expert's result."""

    layer: int
    expert: int
    digest: str


@dataclass(frozen=True, slots=True)
class Given:
    """What the run was asked for."""

    fields: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class Configured:
    """How the backbone was configured; empty if it did not say."""

    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PositionHashes:
    """All hashes of one position of the sequence."""

    position: int
    hashes: tuple[CallHash, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """How the run ended, and what it said."""

    reason: str | None
    text: str
    n_prompt: int = 0


TraceRecord: TypeAlias = Given | Configured | PassTrace | PositionHashes | Ended


def bounded_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield a file's lines, none longer than may be.

    Raises:
        TraceUnreadable: a line is longer.
    """
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise TraceUnreadable(f"a line is longer than {MAX_LINE_BYTES} bytes")
        yield line


def read_trace(lines: Iterable[bytes]) -> Iterator[TraceRecord]:
    """Yield the records of a trace: `Given`, `Configured`, what came of it, `Ended`.

    Raises:
        TraceUnreadable: naming the line; after the records before it.
    """
    numbered = enumerate(lines, 1)
    _parsed(_check_header, next(numbered, (1, b"")))
    yield _parsed(_given, next(numbered, (2, b"")))
    yield _parsed(_configured, next(numbered, (3, b"")))
    last = -1
    while True:
        number, line = next(numbered, (0, b""))
        found = _parsed(_told_or_end, (number, line))
        yield found
        if isinstance(found, Ended):
            break
        if isinstance(found, PassTrace):
            continue
        if found.position <= last:
            raise TraceUnreadable(f"line {number}: position {found.position} is late")
        last = found.position
    for number, _ in numbered:
        raise TraceUnreadable(f"line {number}: something stands behind the end")


def first_line(made_by: str) -> str:
    """Return the line that a trace begins with."""
    return _line({"format": FORMAT, "version": VERSION, "made_by": made_by})


def line_of(record: TraceRecord) -> str:
    """Return the line of a record."""
    if isinstance(record, Given):
        return _line({"input": dict(record.fields)})
    if isinstance(record, Configured):
        return _line({"configuration": dict(record.fields)})
    if isinstance(record, PositionHashes):
        hashes = [
            [call.layer, None if call.expert < 0 else call.expert, call.digest]
            for call in record.hashes
        ]
        return _line({"position": record.position, "hashes": hashes})
    if isinstance(record, PassTrace):
        return _line({"pass": pass_document(record)})
    usage = {"prompt_tokens": record.n_prompt}
    return _line(
        {
            "end": record.reason,
            "failed": record.reason is None,
            "text": record.text,
            "usage": usage,
        }
    )


def read_call_hash(layer: object, expert: object, digest: object) -> CallHash:
    """Return a hash of values that anyone may have sent; Misread."""
    if isinstance(layer, bool) or not isinstance(layer, int):
        raise Misread("a layer must be an integer")
    if expert is None:
        expert = -1
    elif isinstance(expert, bool) or not isinstance(expert, int) or expert < 0:
        raise Misread("an expert must be a number or null")
    if not 0 <= layer < MAX_LAYER or not expert < MAX_LAYER:
        raise Misread("a layer or an expert is too large")
    if not isinstance(digest, str) or len(digest) != 16 or not set(digest) <= _HEX:
        raise Misread("a hash must be 16 hexadecimal digits")
    return CallHash(layer, expert, digest)


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n"


def _parsed(read: Callable[[Record], T], numbered: tuple[int, bytes]) -> T:
    """Read one line; no line at all is a trace that breaks off."""
    number, line = numbered
    if not line:
        raise TraceUnreadable("the trace breaks off before its end")
    if not line.endswith(b"\n"):
        raise TraceUnreadable(f"line {number}: breaks off")
    try:
        return read(Record(parse_object(line.decode("utf-8"))))
    except UnicodeDecodeError as error:
        raise TraceUnreadable(f"line {number}: is not UTF-8") from error
    except Misread as error:
        raise TraceUnreadable(f"line {number}: {error}") from error


def _check_header(record: Record) -> None:
    if record.text("format", 64) != FORMAT:
        raise Misread("is not the first line of a trace")
    version = record.integer("version", 0, 1 << 31)
    if not 1 <= version <= VERSION:
        raise TraceUnreadable(
            f"version {version} of traces is not known here",
            advice="use the release that wrote it, or a newer one",
        )


def _given(record: Record) -> Given:
    fields = _short(record.mapping("input"))
    for name, value in fields.items():
        if not isinstance(value, str | int | float | None):
            raise Misread(f"input.{name[:40]} is neither text nor a number")
    return Given(fields)


def _configured(record: Record) -> Configured:
    fields = _short(record.mapping("configuration"))
    for name, value in fields.items():
        if not isinstance(value, str):
            raise Misread(f"configuration.{name[:40]} is no text")
    return Configured(fields)


def _short(fields: dict[str, Any]) -> dict[str, Any]:
    if len(fields) > _MAX_FIELDS:
        raise Misread(f"has {len(fields)} fields, more than {_MAX_FIELDS}")
    return fields


def _told_or_end(record: Record) -> PassTrace | PositionHashes | Ended:
    if record.has("pass"):
        try:
            return read_pass(record.take("pass"))
        except PassUnreadable as error:
            raise Misread(str(error)) from error
    if not record.has("position"):
        return _ended(record)
    position = record.integer("position", 0, MAX_POSITION)
    calls = []
    for item in record.items("hashes", _MAX_CALLS):
        if not isinstance(item, list) or len(item) != 3:
            raise Misread("a hash is not [layer, expert, digits]")
        calls.append(read_call_hash(*item))
    places = [(call.layer, call.expert) for call in calls]
    if any(one >= other for one, other in pairwise(places)):
        raise Misread("hashes are not ascending by layer and expert")
    return PositionHashes(position, tuple(calls))


def _ended(record: Record) -> Ended:
    failed = record.flag("failed", default=False)
    reason = None if failed else record.text("end", 64)
    text = record.text("text", _MAX_TEXT)
    usage = Record(record.mapping("usage"), "usage")
    return Ended(reason, text, usage.integer("prompt_tokens", 0, MAX_POSITION, 0))
