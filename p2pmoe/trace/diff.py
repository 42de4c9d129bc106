"""Where two runs deviate first: prompt, configuration, or a value at its place.

Order: what was asked for; then the configurations, each variable; then the hashes, by
position, layer, the layer's input before its experts, experts ascending; then the text.
A fault in one expert's weights shows there first of all: attention looks back only, and
a layer's experts are called before the next layer's input is there. So the first place
that differs is the cause, and what follows are its consequences.

Pure: two streams of records in, a report out; neither is held in memory whole.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from p2pmoe.passes.values import PassTrace
from p2pmoe.trace.format import (
    CallHash,
    Configured,
    Ended,
    Given,
    PositionHashes,
    TraceRecord,
    TraceUnreadable,
)

__all__ = ["Deviation", "TraceReport", "compare_traces"]

_SHOWN = 64  # characters of a value, a digest whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One thing that differs: where, and what stands on either side.

    `position`, `layer` and `expert` are those of a hash; `expert` None with a layer is
    the layer's input.
    """

    where: str
    left: str
    right: str
    position: int | None = None
    layer: int | None = None
    expert: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """All variables that differ, then the first place; and what was the same."""

    variables: tuple[Deviation, ...]  # of prompt or configuration
    place: Deviation | None
    n_positions: int  # equal ones, before the first place
    n_hashes: int

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.variables and self.place is None


def compare_traces(
    left: Iterable[TraceRecord], right: Iterable[TraceRecord]
) -> TraceReport:
    """Return how two traces differ; of two runs of different input, that alone.

    Raises:
        TraceUnreadable: as the streams raise it, if no place was found before.
    """
    one, other = _Side(left), _Side(right)
    variables = tuple(_asked_differently(one.given.fields, other.given.fields))
    if variables:
        return TraceReport(variables=variables, place=None, n_positions=0, n_hashes=0)
    configured = _variables(one.configured.fields, other.configured.fields)
    n_positions = n_hashes = 0
    place = None
    while place is None:
        a, b = one.next(), other.next()
        if isinstance(a, PositionHashes) and isinstance(b, PositionHashes):
            place = _in_position(a, b)
            n_positions += place is None
            n_hashes += len(a.hashes) if place is None else 0
            continue
        place = _at_the_end(a, b)
        if place is None:
            one.finish()
            other.finish()
        break
    return TraceReport(
        variables=tuple(configured),
        place=place,
        n_positions=n_positions,
        n_hashes=n_hashes,
    )


class _Side:
    """One trace: its head at once, the rest when asked for."""

    def __init__(self, records: Iterable[TraceRecord]) -> None:
        self._records = iter(records)
        given, configured = next(self._records, None), next(self._records, None)
        if not isinstance(given, Given) or not isinstance(configured, Configured):
            raise TraceUnreadable("a trace begins with its input and configuration")
        self.given, self.configured = given, configured

    def next(self) -> PositionHashes | Ended:
        """Return the next position, or the end; what a pass cost is no value."""
        record = next(self._records, None)
        while isinstance(record, PassTrace):
            record = next(self._records, None)
        if isinstance(record, PositionHashes | Ended):
            return record
        raise TraceUnreadable("a trace breaks off before its end")

    def finish(self) -> None:
        """Read on behind the end, where nothing may stand; TraceUnreadable."""
        if next(self._records, None) is not None:
            raise TraceUnreadable("a trace goes on behind its end")


def _asked_differently(
    left: Mapping[str, object], right: Mapping[str, object]
) -> Iterator[Deviation]:
    for name in {**left, **right}:
        a, b = left.get(name), right.get(name)
        if a == b:
            continue
        if isinstance(a, str) and isinstance(b, str):
            at = _first_difference(a, b)
            yield Deviation(
                where=f"{name}, character {at}", left=_from(a, at), right=_from(b, at)
            )
        else:
            yield Deviation(where=name, left=_shown(a), right=_shown(b))


def _variables(
    left: Mapping[str, str], right: Mapping[str, str]
) -> Iterator[Deviation]:
    """Yield the variables that differ; a digest of them all says nothing more."""
    for name in {**left, **right}:
        a, b = left.get(name), right.get(name)
        if a != b and name != "digest":
            yield Deviation(
                where=f"configuration: {name}", left=_shown(a), right=_shown(b)
            )


def _in_position(left: PositionHashes, right: PositionHashes) -> Deviation | None:
    if left.position != right.position:
        first = min(left.position, right.position)
        is_left = left.position == first
        return Deviation(
            where=f"position {first}",
            left="computed" if is_left else "not computed",
            right="not computed" if is_left else "computed",
            position=first,
        )
    if left.hashes == right.hashes:
        return None
    a = {(call.layer, call.expert): call for call in left.hashes}
    b = {(call.layer, call.expert): call for call in right.hashes}
    layer, expert = min(key for key in {**a, **b} if a.get(key) != b.get(key))
    what = "input of its experts" if expert < 0 else f"expert {expert}"
    return Deviation(
        where=f"position {left.position}, layer {layer}, {what}",
        left=_called(a.get((layer, expert))),
        right=_called(b.get((layer, expert))),
        position=left.position,
        layer=layer,
        expert=None if expert < 0 else expert,
    )


def _called(call: CallHash | None) -> str:
    return "not called" if call is None else call.digest


def _at_the_end(
    left: PositionHashes | Ended, right: PositionHashes | Ended
) -> Deviation | None:
    if isinstance(left, Ended) and isinstance(right, Ended):
        if left.text != right.text:
            at = _first_difference(left.text, right.text)
            return Deviation(
                where=f"text, character {at}",
                left=_from(left.text, at),
                right=_from(right.text, at),
            )
        if left.reason != right.reason:
            return Deviation(
                where="end", left=_end(left.reason), right=_end(right.reason)
            )
        return None
    longer = left if isinstance(left, PositionHashes) else right
    position = longer.position if isinstance(longer, PositionHashes) else 0
    return Deviation(
        where=f"position {position}",
        left=_goes_on(left),
        right=_goes_on(right),
        position=position,
    )


def _goes_on(record: PositionHashes | Ended) -> str:
    return "goes on" if isinstance(record, PositionHashes) else _end(record.reason)


def _end(reason: str | None) -> str:
    return "failed" if reason is None else f"ended: {reason}"


def _first_difference(left: str, right: str) -> int:
    for at, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return at
    return min(len(left), len(right))


def _from(text: str, at: int) -> str:
    return repr(text[at : at + _SHOWN]) if at < len(text) else "(its end)"


def _shown(value: object) -> str:
    if value is None:
        return "not given"
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
