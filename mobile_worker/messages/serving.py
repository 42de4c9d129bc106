"""The work itself: DISPATCH, OUTPUT and ACCEPT.

Serving numbers: call i of a DISPATCH is serving `first_serving + i` of its tab.
Whether layer, experts and lengths fit the model is for the worker and the backbone to
check against their manifest; that they agree with each other is checked here.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from mobile_worker.errors import MessageError
from mobile_worker.messages.envelope import Dtype, MessageType
from mobile_worker.messages.fields import (
    NONCE,
    TAB,
    U16,
    U32,
    U64,
    Integer,
    Kind,
    Packed,
    pack_words,
    unpack_words,
)

__all__ = [
    "MAX_ROWS",
    "Accept",
    "CodedTensor",
    "Dispatch",
    "ExpertCall",
    "Output",
    "OutputError",
]

MAX_ROWS = 8192  # in one DISPATCH
MAX_RESULTS = 1 << 20  # (expert, row) pairs in one OUTPUT
MAX_EMBEDDING = 1 << 17
_MAX_WORDS = MAX_RESULTS + 2 * 65_536
_MAX_RANGES = 65_536


class OutputError(IntEnum):
    """Why an OUTPUT has no results."""

    OK = 0
    ARITH = 1  # a result is not finite
    NOT_HELD = 2  # an expert is not loaded here
    NO_GRANT = 3  # no grant, or its ceiling or the float is reached
    OVERDUE = 4  # the deadline passed before it was computed
    BAD_REQUEST = 5  # does not fit the model, or was answered differently before
    DRAINING = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedTensor:
    """Rows coded in blocks of 32: codes i8 [n, n_embd], scales f32 [n, n_embd / 32]."""

    codes: bytes
    scales: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertCall:
    """One expert of the layer and the rows it is asked for, strictly ascending."""

    index: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Coded:
    dtype: Dtype = Dtype.CODED

    def pack(self, value: object) -> Packed | None:
        if value is None:
            return None
        if not isinstance(value, CodedTensor):
            raise MessageError(f"{value!r:.40} is no coded tensor")
        return [self.dtype, len(value.codes)], value.codes + value.scales

    def unpack(self, dimensions: Sequence[int], raw: memoryview) -> object:
        if not dimensions:
            return None
        n_codes = math.prod(dimensions)
        return CodedTensor(codes=bytes(raw[:n_codes]), scales=bytes(raw[n_codes:]))


@dataclass(frozen=True, slots=True)
class _Floats:
    dtype: Dtype = Dtype.F32

    def pack(self, value: object) -> Packed | None:
        if value is None:
            return None
        if not isinstance(value, bytes) or not value or len(value) % 4:
            raise MessageError(f"{value!r:.40} is no row of f32")
        return [self.dtype, len(value) // 4], value

    def unpack(self, dimensions: Sequence[int], raw: memoryview) -> object:
        return bytes(raw) if dimensions else None


@dataclass(frozen=True, slots=True)
class _Calls:
    """Calls as words: index, number of rows, rows; and so on."""

    dtype: Dtype = Dtype.U32

    def pack(self, value: object) -> Packed | None:
        if not isinstance(value, tuple) or not value:
            raise MessageError(f"{value!r:.40} is no tuple of calls")
        words: list[int] = []
        for call in value:
            if not isinstance(call, ExpertCall):
                raise MessageError(f"{call!r:.40} is no call")
            words += (call.index, len(call.rows), *call.rows)
        return [self.dtype, len(words)], pack_words(words)

    def unpack(self, dimensions: Sequence[int], raw: memoryview) -> object:
        words = unpack_words(dimensions, raw, _MAX_WORDS)
        calls: list[ExpertCall] = []
        at = 0
        while at + 2 <= len(words):
            index, n_rows = words[at : at + 2]
            at += 2 + n_rows
            calls.append(ExpertCall(index=index, rows=words[at - n_rows : at]))
        if at != len(words):
            raise MessageError("the calls do not fill their words")
        return tuple(calls)


@dataclass(frozen=True, slots=True)
class _Results:
    dtype: Dtype = Dtype.U8

    def pack(self, value: object) -> Packed | None:
        if not isinstance(value, bytes):
            raise MessageError(f"{value!r:.40} is not bytes")
        return ([self.dtype, len(value)], value) if value else None

    def unpack(self, dimensions: Sequence[int], raw: memoryview) -> object:
        return bytes(raw)


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Inclusive ranges as u32 [n, 2]."""

    dtype: Dtype = Dtype.U32

    def pack(self, value: object) -> Packed | None:
        if not isinstance(value, tuple) or not 1 <= len(value) <= _MAX_RANGES:
            raise MessageError(f"{value!r:.40} is no tuple of ranges")
        try:
            words = [word for first, last in value for word in (first, last)]
        except (TypeError, ValueError) as error:
            raise MessageError("a range is a pair of serving numbers") from error
        return [self.dtype, len(value), 2], pack_words(words)

    def unpack(self, dimensions: Sequence[int], raw: memoryview) -> object:
        if len(dimensions) != 2 or dimensions[1] != 2:
            raise MessageError(f"shape {dimensions}, not pairs of words")
        words = unpack_words((), raw, 2 * _MAX_RANGES)
        return tuple(zip(words[::2], words[1::2], strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """DISPATCH, backbone -> worker: rows of one layer and who is to compute them.

    deadline_ms: from receipt. profile: how results are to be coded. coded, floats: the
    rows [n_rows, n_embd] in either form or both, as the experts' formats need; floats
    are f32. Each call names rows that every expert of it gets.

    Raises:
        MessageError: at construction, if parts contradict each other.
    """

    TYPE: ClassVar[MessageType] = MessageType.DISPATCH
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "request": U64,
        "tab": TAB,
        "first_serving": U32,
        "layer": U16,
        "deadline_ms": U32,
        "price_epoch": U32,
        "nonce": NONCE,
        "profile": Integer(2),
        "n_embd": Integer(MAX_EMBEDDING),
        "n_rows": Integer(MAX_ROWS),
        "coded": _Coded(),
        "floats": _Floats(),
        "calls": _Calls(),
    }

    request: int
    tab: bytes
    first_serving: int
    layer: int
    deadline_ms: int
    price_epoch: int
    nonce: bytes
    profile: int
    n_embd: int
    coded: CodedTensor | None
    floats: bytes | None
    n_rows: int
    calls: tuple[ExpertCall, ...]

    def __post_init__(self) -> None:
        n_items = self.n_rows * self.n_embd
        if not 1 <= n_items <= 1 << 26:
            raise MessageError(f"rows of shape [{self.n_rows}, {self.n_embd}]")
        if self.coded is None and self.floats is None:
            raise MessageError("a dispatch without rows")
        if self.coded is not None and (
            self.n_embd % 32
            or len(self.coded.codes) != n_items
            or len(self.coded.scales) != n_items // 8
        ):
            raise MessageError(f"coded rows do not fill [{self.n_rows}, {self.n_embd}]")
        if self.floats is not None and len(self.floats) != 4 * n_items:
            raise MessageError(f"f32 rows do not fill [{self.n_rows}, {self.n_embd}]")
        if len({call.index for call in self.calls}) != len(self.calls):
            raise MessageError("an expert is called twice")
        if self.first_serving + len(self.calls) > 1 << 32:
            raise MessageError(f"serving numbers from {self.first_serving} overflow")
        for call in self.calls:
            _check_call(call, self.n_rows)


def _check_call(call: ExpertCall, n_rows: int) -> None:
    rows = call.rows
    if not 0 <= call.index <= 0xFFFF or not rows:
        raise MessageError(f"expert {call.index} with {len(rows)} rows")
    if len(rows) > 1 and any(map(operator.ge, rows, rows[1:])):
        raise MessageError(f"the rows of expert {call.index} do not ascend")
    if not 0 <= rows[0] <= rows[-1] < n_rows:
        raise MessageError(f"rows {rows[0]}..{rows[-1]} of {n_rows}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """OUTPUT, worker -> backbone: results of the calls in order, rows in order.

    error: an OutputError; unless it is OK there are no results. n_rows_total: rows of
    all calls together. compute_us: time spent computing.

    Raises:
        MessageError: at construction, if parts contradict each other.
    """

    TYPE: ClassVar[MessageType] = MessageType.OUTPUT
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "request": U64,
        "error": Integer(max(OutputError)),
        "compute_us": U32,
        "n_rows_total": Integer(MAX_RESULTS),
        "results": _Results(),
    }

    request: int
    error: int
    compute_us: int
    n_rows_total: int
    results: bytes

    def __post_init__(self) -> None:
        if self.error != OutputError.OK and (self.results or self.n_rows_total):
            raise MessageError(f"results together with error {self.error}")
        if self.error == OutputError.OK and (
            self.n_rows_total < 1
            or not self.results
            or len(self.results) % self.n_rows_total
        ):
            n_bytes = len(self.results)
            raise MessageError(
                f"{n_bytes} bytes of results in {self.n_rows_total} rows"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """ACCEPT, backbone -> worker: serving numbers whose results were valid in time.

    ranges: inclusive (first, last), ascending and apart. Repeating one in another
    message changes nothing.

    Raises:
        MessageError: at construction, if a range runs backwards or into another.
    """

    TYPE: ClassVar[MessageType] = MessageType.ACCEPT
    FIELDS: ClassVar[Mapping[str, Kind]] = {"tab": TAB, "ranges": _Ranges()}

    tab: bytes
    ranges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        previous = -1
        for first, last in self.ranges:
            if not previous < first <= last:
                raise MessageError(f"a range from {first} to {last} after {previous}")
            previous = last
