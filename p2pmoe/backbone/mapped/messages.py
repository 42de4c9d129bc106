"""What parent and child say to each other: bytes, bounded before they are believed.

Little-endian. A frame is `u32 length, u8 kind, body`; the length counts the kind.

    WORK     u64 job, u8 profile, u8 kinds (1 coded, 2 floats), u32 n_rows, u32 n_embd,
             u16 n_calls, codes i8 [n_rows, n_embd], scales f32 [n_rows, n_embd / 32],
             floats f32 [n_rows, n_embd], then for each call
               u32 expert (packed), u8 activation, f64 alpha, f64 limit, u8 n_biases,
               3 matrices (gate, up, down): u16 format, u32 rows, u32 columns, u64 at,
               biases (0 or 3): u32 n, u64 at,
               u32 n_chosen (2^32 - 1: all rows), u32 [n_chosen]
    VALUES   u64 job, u32 expert, u32 n_rows, u32 n_embd, u64 microseconds,
             u64 bytes read, u64 minor faults, u64 major faults, f32 [n_rows, n_embd]
    REFUSED  u64 job, u32 expert, u8 reason, text (UTF-8)
    BEAT     u64 resident, virtual, swapped, minor faults, major faults, bytes read

WORK goes to the child, the others come from it: one VALUES or REFUSED for each call, in
order, and a BEAT each second while it computes. Offsets are in the address space of the
files end to end. Pure; whatever does not add up is MessageMalformed.
"""

import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum, unique

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import BLOCK, CodedRows, ExpertInput, Floats
from mobile_worker.arithmetic.formats.block_format import Format, row_bytes
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.mapped.process_figures import ProcessCounts, ProcessFigures
from p2pmoe.weights.experts import BiasRange, ExpertRanges, MatrixRange

__all__ = [
    "MAX_FRAME_BYTES",
    "Call",
    "Kind",
    "MessageMalformed",
    "Reason",
    "Refused",
    "Values",
    "Work",
    "pack_beat",
    "pack_refused",
    "pack_values",
    "pack_work",
    "parse_beat",
    "parse_refused",
    "parse_values",
    "parse_work",
]

MAX_FRAME_BYTES = 1 << 28
_MAX_TEXT_BYTES = 1000
_ALL = 0xFFFFFFFF
_CODED, _FLOATS = 1, 2
_WORK = struct.Struct("<QBBIIH")
_CALL = struct.Struct("<IBddB")
_MATRIX = struct.Struct("<HIIQ")
_BIAS = struct.Struct("<IQ")
_N_CHOSEN = struct.Struct("<I")
_VALUES = struct.Struct("<QIIIQQQQ")
_REFUSED = struct.Struct("<QIB")
_BEAT = struct.Struct("<6Q")


class MessageMalformed(Exception):
    """The other side said what it cannot mean; the child ends, or is ended."""


@unique
class Kind(IntEnum):
    """The kind of a frame, as on the socket."""

    WORK = 1
    VALUES = 2
    REFUSED = 3
    BEAT = 4


@unique
class Reason(IntEnum):
    """Why an expert was not computed, as on the socket."""

    NON_FINITE = 1  # a value on the way is no finite number
    UNFIT = 2  # its weights hold no numbers, or do not lie in the files


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """One expert: where it lies, and which rows go through it; None: all."""

    expert: ExpertId
    ranges: ExpertRanges
    activation: Activation
    rows: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """The calls of one layer on the rows they share."""

    job: int
    profile: Profile
    rows: ExpertInput
    calls: Sequence[Call]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Values:
    """One expert's values f32 [n, n_embd], and what they took."""

    job: int
    expert: ExpertId
    values: Floats
    micros: int
    counts: ProcessCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """One expert that was not computed, and why."""

    job: int
    expert: ExpertId
    reason: Reason
    text: str


class _Reader:
    """Takes a body apart; MessageMalformed where it is too short or too long."""

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._at = 0

    def take(self, n_bytes: int) -> memoryview:
        if n_bytes > len(self._body) - self._at:
            raise MessageMalformed(f"a message ends {n_bytes} bytes too early")
        self._at += n_bytes
        return self._body[self._at - n_bytes : self._at]

    def fields(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.take(form.size))

    def array(self, kind: str, *shape: int) -> npt.NDArray[np.generic]:
        dtype, n = np.dtype(kind), int(np.prod(shape, dtype=object))
        return np.frombuffer(self.take(n * dtype.itemsize), dtype).reshape(shape)

    def rest(self) -> memoryview:
        return self.take(len(self._body) - self._at)

    def end(self) -> None:
        if self._at != len(self._body):
            raise MessageMalformed(f"{len(self._body) - self._at} bytes too many")


def pack_work(work: Work) -> bytes:
    """Return the body of WORK."""
    coded, floats = work.rows.coded, work.rows.floats
    kinds = (_CODED if coded is not None else 0) | (
        _FLOATS if floats is not None else 0
    )
    like = coded.codes if coded is not None else floats
    n_rows, n_embd = (0, 0) if like is None else like.shape
    n_calls = len(work.calls)
    parts = [_WORK.pack(work.job, work.profile, kinds, n_rows, n_embd, n_calls)]
    if coded is not None:
        parts += [coded.codes.tobytes(), coded.scales.astype("<f4").tobytes()]
    if floats is not None:
        parts.append(floats.astype("<f4").tobytes())
    parts += map(_pack_call, work.calls)
    return b"".join(parts)


def _pack_call(call: Call) -> bytes:
    ranges, activation = call.ranges, call.activation
    kind, alpha, limit = activation.kind, activation.alpha, activation.limit
    head = (call.expert.packed, kind, alpha, limit, len(ranges.biases))
    parts = [_CALL.pack(*head)]
    parts += [
        _MATRIX.pack(m.format, m.n_rows, m.n_cols, m.offset)
        for m in (ranges.gate, ranges.up, ranges.down)
    ]
    parts += [_BIAS.pack(bias.n, bias.offset) for bias in ranges.biases]
    if call.rows is None:
        parts.append(_N_CHOSEN.pack(_ALL))
    else:
        parts += [_N_CHOSEN.pack(len(call.rows)), call.rows.astype("<u4").tobytes()]
    return b"".join(parts)


def parse_work(body: memoryview) -> Work:
    """Return what WORK says; MessageMalformed."""
    reader = _Reader(body)
    job, profile, kinds, n_rows, n_embd, n_calls = reader.fields(_WORK)
    if n_embd % BLOCK or not kinds or kinds > _CODED + _FLOATS:
        raise MessageMalformed(f"{n_rows} rows of {n_embd}, kinds {kinds}")
    coded = floats = None
    if kinds & _CODED:
        codes = reader.array("i1", n_rows, n_embd)
        scales = reader.array("<f4", n_rows, n_embd // BLOCK)
        coded = CodedRows(codes=codes, scales=scales)  # type: ignore[arg-type]
    if kinds & _FLOATS:
        floats = reader.array("<f4", n_rows, n_embd)
    rows = ExpertInput(coded=coded, floats=floats)  # type: ignore[arg-type]
    try:
        calls = tuple(_parse_call(reader, n_rows) for _ in range(n_calls))
        known = Profile(profile)
    except ValueError as exc:
        raise MessageMalformed(str(exc)) from exc
    reader.end()
    return Work(job=job, profile=known, rows=rows, calls=calls)


def _parse_call(reader: _Reader, n_rows: int) -> Call:
    packed, kind, alpha, limit, n_biases = reader.fields(_CALL)
    if n_biases not in {0, 3}:
        raise MessageMalformed(f"an expert with {n_biases} biases")
    gate, up, down = (_parse_matrix(reader.fields(_MATRIX)) for _ in range(3))
    biases = tuple(
        BiasRange(n=n, offset=at)
        for n, at in (reader.fields(_BIAS) for _ in range(n_biases))
    )
    (n_chosen,) = reader.fields(_N_CHOSEN)
    chosen = None
    if n_chosen != _ALL:
        chosen = reader.array("<u4", n_chosen).astype(np.int64)
        if chosen.size and int(chosen.max()) >= n_rows:
            raise MessageMalformed(f"row {int(chosen.max())} of {n_rows}")
    return Call(
        expert=ExpertId.unpack(packed),
        ranges=ExpertRanges(gate=gate, up=up, down=down, biases=biases),
        activation=Activation(kind=ActivationKind(kind), alpha=alpha, limit=limit),
        rows=chosen,
    )


def _parse_matrix(fields: tuple[int, ...]) -> MatrixRange:
    number, n_rows, n_cols, at = fields
    form = Format(number)
    if not n_rows or not n_cols or n_cols % BLOCK:
        raise MessageMalformed(f"a matrix of {n_rows} x {n_cols}")
    return MatrixRange(
        format=form,
        n_rows=n_rows,
        n_cols=n_cols,
        offset=at,
        n_bytes=n_rows * row_bytes(form, n_cols),
    )


def pack_values(values: Values) -> bytes:
    """Return the body of VALUES."""
    n_rows, n_embd = values.values.shape
    head = _VALUES.pack(
        values.job,
        values.expert.packed,
        n_rows,
        n_embd,
        values.micros,
        values.counts.read_bytes,
        values.counts.minor_faults,
        values.counts.major_faults,
    )
    return head + values.values.astype("<f4").tobytes()


def parse_values(body: memoryview) -> Values:
    """Return what VALUES says; MessageMalformed."""
    reader = _Reader(body)
    job, packed, n_rows, n_embd, micros, read, minor, major = reader.fields(_VALUES)
    values = reader.array("<f4", n_rows, n_embd).astype(np.float32)
    reader.end()
    return Values(
        job=job,
        expert=ExpertId.unpack(packed),
        values=values,
        micros=micros,
        counts=ProcessCounts(minor, major, read),
    )


def pack_refused(refused: Refused) -> bytes:
    """Return the body of REFUSED; the text is cut to what is allowed."""
    text = refused.text.encode()[:_MAX_TEXT_BYTES]
    return _REFUSED.pack(refused.job, refused.expert.packed, refused.reason) + text


def parse_refused(body: memoryview) -> Refused:
    """Return what REFUSED says; MessageMalformed."""
    reader = _Reader(body)
    job, packed, number = reader.fields(_REFUSED)
    text = bytes(reader.rest()[:_MAX_TEXT_BYTES]).decode(errors="replace")
    try:
        reason = Reason(number)
    except ValueError as exc:
        raise MessageMalformed(f"refused for reason {number}") from exc
    return Refused(job=job, expert=ExpertId.unpack(packed), reason=reason, text=text)


def pack_beat(figures: ProcessFigures) -> bytes:
    """Return the body of BEAT."""
    return _BEAT.pack(*astuple(figures))


def parse_beat(body: memoryview) -> ProcessFigures:
    """Return what BEAT says; MessageMalformed."""
    reader = _Reader(body)
    numbers = reader.fields(_BEAT)
    reader.end()
    return ProcessFigures(*numbers)
