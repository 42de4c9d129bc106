"""What a worker is doing and why: one table, the same words everywhere.

A state is not stored but read off the facts: the first line of the table whose
condition holds is the state, with its reason in numbers. So no event can leave a state
behind that the facts no longer bear out. The terminal, the lines of a pipe and `--json`
show the same `Status`.

    state            holds when                                      ends when
    error            something cannot be made good here              the process ends
    draining         it was asked to stop                            the process ends
    starting         it has not joined yet                           the relay answers
    unreachable      its link to the relay is down                   the link is back
    fetching         leased experts are not all in memory            the last one is
    serving          a dispatch came within the last 10 s            they stop coming
    ready            it holds all that it leases                     a dispatch comes
    idle_no_demand   the market has nothing for it                   a lease comes
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Facts", "State", "Status", "status_of"]

_SERVING_S = 10.0
_MEBIBYTE = 1 << 20


class State(StrEnum):
    """What a worker is doing."""

    STARTING = "starting"
    FETCHING = "fetching"
    READY = "ready"
    SERVING = "serving"
    IDLE_NO_DEMAND = "idle_no_demand"
    UNREACHABLE = "unreachable"
    DRAINING = "draining"
    ERROR = "error"


@dataclass(slots=True, kw_only=True)
class Facts:
    """What is the case, as the parts of the worker last reported it."""

    error: str = ""
    draining: str = ""
    doing: str = "reading its key"  # until it has joined
    kernel: str = ""  # what it computes with
    joined: bool = False
    relay_is_up: bool = False
    relay_detail: str = ""
    n_leased: int = 0
    n_held: int = 0
    fetched_bytes: int = 0
    leased_bytes: int = 0
    problem: str = ""  # why fetching does not get on, if it does not
    idle_s: float = float("inf")  # since the last dispatch
    served: int = 0  # servings since the start
    served_last_minute: int = 0
    accepted: int = 0
    signed: int = 0
    signed_uc: int = 0
    waiting_to_file: int = 0
    rejected: int = 0
    refused: int = 0
    major_faults_s: float = 0.0  # page faults that waited for the disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A state with its reason, and since when (seconds, monotonic) it holds."""

    state: State
    reason: str
    since: float

    @property
    def line(self) -> str:
        """The state and its reason in one line."""
        name = str(self.state).replace("_", " ")
        return f"{name}: {self.reason}" if self.reason else name


@dataclass(frozen=True, slots=True)
class _Row:
    state: State
    holds: Callable[[Facts], bool]
    reason: Callable[[Facts], str]


def _fetching(facts: Facts) -> str:
    experts = f"{facts.n_held}/{facts.n_leased} experts"
    n_bytes = (
        f"{facts.fetched_bytes / _MEBIBYTE:.1f} of "
        f"{facts.leased_bytes / _MEBIBYTE:.1f} MB"
    )
    problem = f", {facts.problem}" if facts.problem else ""
    return f"{experts}, {n_bytes}{problem}"


_TABLE = (
    _Row(State.ERROR, lambda f: bool(f.error), lambda f: f.error),
    _Row(State.DRAINING, lambda f: bool(f.draining), lambda f: f.draining),
    _Row(State.STARTING, lambda f: not f.joined, lambda f: f.doing),
    _Row(State.UNREACHABLE, lambda f: not f.relay_is_up, lambda f: f.relay_detail),
    _Row(State.FETCHING, lambda f: f.n_held < f.n_leased, _fetching),
    _Row(
        State.SERVING,
        lambda f: f.n_leased > 0 and f.idle_s < _SERVING_S,
        lambda f: f"{f.n_held} experts, {f.served_last_minute} servings a minute",
    ),
    _Row(
        State.READY,
        lambda f: f.n_leased > 0,
        lambda f: f"holds {f.n_held} experts, waiting for work",
    ),
    _Row(
        State.IDLE_NO_DEMAND,
        lambda _: True,
        lambda _: "the market has no experts for this worker yet, waiting",
    ),
)


def status_of(facts: Facts, now: float, previous: Status | None = None) -> Status:
    """Return the state that the facts amount to; it keeps its `since` if unchanged."""
    row = next(row for row in _TABLE if row.holds(facts))
    same = previous is not None and previous.state == row.state
    since = previous.since if same and previous is not None else now
    return Status(state=row.state, reason=row.reason(facts), since=since)
