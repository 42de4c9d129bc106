"""What a running worker says of itself: five lines for people, and the same as JSON.

Contract: made from a status and the facts alone, so that the terminal, the local page,
`p2pmoe status` and `--json` cannot differ. The five lines are the state with its
reason, what ends it and how to override it; how the relay sees this worker; what it
served; what it earned; what it uses of its limits. A figure that is not known is left
out, never guessed. Pure.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ledger.amounts import format_credits
from mobile_worker.contribute.states import Facts, State, Status, Use
from mobile_worker.governor.readings import Power, Readings
from p2pmoe.contributor.durations import format_duration

__all__ = ["Line", "WorkerReport", "how_to_override", "report_of"]

_MEBIBYTE = 1 << 20
_SHOWN_SINCE_S = 1.0
_TIMES = frozenset({"at", "in", "after", "on", "once", "tomorrow"})
# These end by themselves in a moment; what ends them is no news.
_PASSING = frozenset({State.STARTING, State.SERVING, State.FETCHING})


@dataclass(frozen=True, slots=True)
class Line:
    """A name and what is said under it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """lines: for people. fields: every figure, by its name in JSON."""

    lines: tuple[Line, ...]
    fields: Mapping[str, object]

    def as_json(self) -> dict[str, object]:
        """Return the document: the fields, and the lines as pairs."""
        pairs = [[line.name, line.text] for line in self.lines]
        return {**self.fields, "lines": pairs}


def report_of(status: Status, facts: Facts, now: float) -> WorkerReport:
    """Return the report of this moment; `now` is monotonic, as in the status."""
    lines = (
        Line("state", _state(status, now)),
        Line("relay", _relay(facts)),
        Line("served", _served(facts)),
        Line("earned", _earned(facts)),
        Line("uses", _uses(facts)),
    )
    return WorkerReport(lines=lines, fields=_fields(status, facts, now))


def _state(status: Status, now: float) -> str:
    more = []
    since_s = now - status.since
    if since_s >= _SHOWN_SINCE_S:
        more.append(f"for {format_duration(since_s)}")
    if status.state not in _PASSING and (ends := _ends(status.ends_when)):
        more.append(ends)
    if status.override:
        more.append(how_to_override(status))
    return f"{status.line} ({'; '.join(more)})" if more else status.line


def how_to_override(status: Status) -> str:
    """Return what the command does that goes against a pause; empty for no pause."""
    if not status.override:
        return ""
    is_own = status.state is State.PAUSED_USER
    return f"`{status.override}` {'ends it' if is_own else 'overrides it once'}"


def _ends(when: str) -> str:
    """Return what ends a state, as a part of a sentence."""
    if not when or when == "never":
        return when and "does not end"
    first = when.partition(" ")[0]
    return f"ends {when}" if first in _TIMES else f"ends when {when}"


def _relay(facts: Facts) -> str:
    if not facts.joined:
        return "not joined yet"
    if not facts.relay_is_up:
        why = f": {facts.relay_detail}" if facts.relay_detail else ""
        return f"not connected{why}"
    to = f" to {facts.relay_detail}" if facts.relay_detail else ""
    heard_s = facts.relay_heard_s
    heard = "" if heard_s is None else f", heard {format_duration(heard_s)} ago"
    return f"connected{to}{heard}"


def _served(facts: Facts) -> str:
    parts = [
        f"{_n(facts.served_last_minute, 'expert call')} in the last minute",
        f"{facts.served_today} today",
        f"{facts.served} since its start",
    ]
    if facts.refused:
        parts.append(f"{_n(facts.refused, 'dispatch', 'dispatches')} refused")
    return ", ".join(parts)


def _earned(facts: Facts) -> str:
    parts = [
        f"{format_credits(facts.earned_today_uc)} credits today",
        f"{format_credits(facts.signed_uc)} since its start",
    ]
    pending = facts.accepted - facts.signed
    if pending > 0:
        parts.append(f"{_n(pending, 'call')} not signed yet")
    if facts.waiting_to_file:
        on_way = _n(facts.waiting_to_file, "voucher")
        parts.append(f"{on_way} on the way to the ledger")
    if facts.rejected:
        reasons = ", ".join(
            f"{n} {reason}" for reason, n in sorted(facts.rejected_by_reason.items())
        )
        why = f" ({reasons})" if reasons else ""
        parts.append(f"{_n(facts.rejected, 'voucher')} rejected by it{why}")
    return ", ".join(parts)


def _uses(facts: Facts) -> str:
    use = facts.use
    parts = [
        f"{facts.n_held} of {facts.n_leased} experts",
        _of("memory", _mib(use.memory_bytes), _limit(use.max_memory_bytes)),
        _of("disk", _mib(use.disk_bytes), _limit(use.max_disk_bytes)),
        _of("cpu", f"{use.cpus:.1f}", str(use.max_cpus) if use.max_cpus else ""),
        _of("up", _rate(use.up_bytes_s), _rate_limit(use)),
        _of("today", _mib(use.day_bytes), _limit(use.max_day_bytes)),
    ]
    if facts.kernel:
        parts.append(facts.kernel)
    parts += _told(facts.readings)
    return ", ".join(parts)


def _n(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def _of(name: str, used: str, limit: str) -> str:
    return f"{name} {used} of {limit}" if limit else f"{name} {used}"


def _mib(n_bytes: int) -> str:
    return f"{n_bytes / _MEBIBYTE:.0f} MB"


def _limit(n_bytes: int) -> str:
    return _mib(n_bytes) if n_bytes else ""


def _rate(bytes_s: float) -> str:
    return f"{bytes_s * 8 / 1e6:.1f} Mbit/s"


def _rate_limit(use: Use) -> str:
    return _rate(use.max_up_bytes_s) if use.max_up_bytes_s else ""


def _told(readings: Readings) -> list[str]:
    """Return what the sensors say, as far as they say anything."""
    told = []
    if readings.power is not Power.UNKNOWN:
        told.append(f"on {readings.power}")
    if readings.battery_percent is not None:
        told.append(f"battery {readings.battery_percent} %")
    if readings.temperature_c is not None:
        told.append(f"{readings.temperature_c:.0f} °C")
    if readings.is_metered:
        told.append("metered network")
    return told


def _fields(status: Status, facts: Facts, now: float) -> dict[str, object]:
    return {
        "state": str(status.state),
        "reason": status.reason,
        "for_s": round(max(0.0, now - status.since), 1),
        "ends_when": status.ends_when,
        "ends": _ends(status.ends_when),
        "override": status.override,
        "pauses": [str(pause.cause) for pause in facts.pauses],
        "relay_is_up": facts.relay_is_up,
        "relay": facts.relay_detail,
        "relay_heard_s": _seconds(facts.relay_heard_s),
        "kernel": facts.kernel,
        "experts_held": facts.n_held,
        "experts_leased": facts.n_leased,
        "served": facts.served,
        "served_last_minute": facts.served_last_minute,
        "served_today": facts.served_today,
        "accepted": facts.accepted,
        "signed": facts.signed,
        "signed_uc": facts.signed_uc,
        "earned_today_uc": facts.earned_today_uc,
        "vouchers_to_file": facts.waiting_to_file,
        "vouchers_rejected": facts.rejected,
        "rejected_by_reason": dict(sorted(facts.rejected_by_reason.items())),
        "dispatches_refused": facts.refused,
        "major_faults_per_s": round(facts.major_faults_s, 1),
        "use": _rounded(asdict(facts.use)),
        "readings": _rounded(asdict(facts.readings)),
    }


def _seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _rounded(values: Mapping[str, object]) -> dict[str, object]:
    return {
        name: round(value, 2) if isinstance(value, float) else value
        for name, value in values.items()
    }
