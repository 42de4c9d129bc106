"""Does what is asked of a running worker, whoever asks: one table of operations.

    status        the report: five lines, and every figure
    pause         rest for `for_s` seconds, or until it is resumed
    resume        end that, and override once what else keeps it from working
    drain         finish, have the last voucher signed, give leases back, end
    stop          end at once
    limits        the limits that hold
    set-limits    change some; written to the file and kept to from now on
    clear-cache   remove from the shard store what is not leased
    page          where the local page is

Parameters and results are JSON objects; a parameter that is unknown, missing or of
another type is refused with its name. Nothing here waits for the network.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mobile_worker.contribute.controls import Controls
from mobile_worker.governor.errors import LimitsRefused
from mobile_worker.governor.limit_keys import changed, rows
from mobile_worker.governor.limits import Limits
from p2pmoe.contributor.durations import MAX_S
from p2pmoe.contributor.errors import ControlRefused
from p2pmoe.contributor.report import report_of

__all__ = ["Desk", "limits_document"]

_Params = Mapping[str, object]
_Result = dict[str, object]
_MAX_CHANGES: Final = 32


@dataclass(slots=True, kw_only=True)
class Desk:
    """See the module. page_url: with its token, or empty if there is no page."""

    controls: Controls
    page_url: str = ""

    def operate(self, operation: str, params: _Params) -> _Result:
        """Do one operation and return what is to be told of it.

        Raises:
            ControlRefused: there is no such operation, or a parameter is wrong.
        """
        found = _OPERATIONS.get(operation)
        if found is None:
            raise ControlRefused(f"a worker knows no operation {operation[:40]!r}")
        do, names = found
        unknown = sorted(set(params) - set(names))
        if unknown:
            raise ControlRefused(f"{operation} takes no {unknown[0][:40]!r}")
        try:
            return do(self, params)
        except LimitsRefused as error:
            raise ControlRefused(str(error), advice=error.advice) from error


def limits_document(limits: Limits) -> list[dict[str, str]]:
    """Return limits as they go over the wire and into `--json`."""
    return [
        {"limit": name, "value": value, "meaning": meaning}
        for name, value, meaning in rows(limits)
    ]


def _status(desk: Desk, _params: _Params) -> _Result:
    controls = desk.controls
    status = controls.figures.status
    if status is None:
        raise ControlRefused("the worker has only just begun", advice="try again")
    now = controls.clock.monotonic()
    report = report_of(status, controls.figures.facts, now).as_json()
    worker = controls.peer_id.hex() if controls.peer_id is not None else ""
    return {"worker": worker, **report}


def _pause(desk: Desk, params: _Params) -> _Result:
    for_s: Any = params.get("for_s")
    is_number = isinstance(for_s, int | float) and not isinstance(for_s, bool)
    if for_s is not None and not (is_number and 0 < for_s <= MAX_S):
        raise ControlRefused("for_s is no number of seconds up to a year")
    desk.controls.governor.pause(None if for_s is None else float(for_s))
    return _now(desk)


def _resume(desk: Desk, _params: _Params) -> _Result:
    desk.controls.governor.resume()
    return _now(desk)


def _drain(desk: Desk, _params: _Params) -> _Result:
    desk.controls.drain()
    return _now(desk)


def _stop(desk: Desk, _params: _Params) -> _Result:
    desk.controls.end()
    return {}


def _limits(desk: Desk, _params: _Params) -> _Result:
    return {"limits": limits_document(desk.controls.governor.limits)}


def _set_limits(desk: Desk, params: _Params) -> _Result:
    wanted = params.get("limits")
    if not isinstance(wanted, dict) or not 0 < len(wanted) <= _MAX_CHANGES:
        raise ControlRefused("limits is no object of names and values")
    values = {str(name): str(value) for name, value in wanted.items()}
    governor = desk.controls.governor
    governor.set_limits(changed(governor.limits, values))
    return _limits(desk, {})


def _clear_cache(desk: Desk, _params: _Params) -> _Result:
    store = desk.controls.store
    if store is None:
        raise ControlRefused("the worker reads its shards", advice="try again")
    n_files, n_bytes = store.clear()
    return {"files": n_files, "bytes": n_bytes}


def _page(desk: Desk, _params: _Params) -> _Result:
    if not desk.page_url:
        raise ControlRefused(
            "this worker has no local page", advice="start it without --page off"
        )
    return {"url": desk.page_url}


def _now(desk: Desk) -> _Result:
    """Have the wish acted on, so that the answer tells what came of it."""
    controls = desk.controls
    controls.look()
    controls.figures.update(controls.clock.monotonic())
    return _status(desk, {})


_Do = Callable[[Desk, _Params], _Result]
_OPERATIONS: Final[Mapping[str, tuple[_Do, tuple[str, ...]]]] = {
    "status": (_status, ()),
    "pause": (_pause, ("for_s",)),
    "resume": (_resume, ()),
    "drain": (_drain, ()),
    "stop": (_stop, ()),
    "limits": (_limits, ()),
    "set-limits": (_set_limits, ("limits",)),
    "clear-cache": (_clear_cache, ()),
    "page": (_page, ()),
}
