"""What a worker is doing and why: one table, the same words everywhere.

A state is not stored but read off the facts: the first line of the table whose
condition holds is the state, with its reason in numbers. So no event can leave a state
behind that the facts no longer bear out, and what a user, the policy and a drain want
are facts of their own, of which none overwrites another. The terminal, the lines of a
pipe, the local page and `--json` show the same `Status`.

    state            holds when                                      ends when
    error            something cannot be made good here              the process ends
    draining         it was asked to stop                            the process ends
    kicked           the market took its leases away                 as the market says
    starting         it has not joined yet                           the relay answers
    paused_user      its user paused it                              resume, or the time
    paused_battery   on battery, or the battery is low               mains, or charged
    paused_hot       too warm, or slowed down by heat                cooler for a while
    paused_metered   the network is a metered one                    another network
    paused_schedule  it is not one of the hours allowed              the next of them
    paused_quota     today's bytes are used up                       midnight
    paused_busy      others need this machine                        they do not
    unreachable      its link to the relay is down                   the link is back
    fetching         leased experts are not all in memory            the last one is
    serving          a dispatch came within the last 10 s            they stop coming
    probation        its key is new to the market                    enough checks pass
    ready            it holds all that it leases                     a dispatch comes
    idle_no_demand   the market has nothing for it                   a lease comes

Every state names what ends it, and every pause the command that overrides it once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from mobile_worker.governor.pause import Cause, Pause
from mobile_worker.governor.readings import NOTHING_KNOWN, Readings

__all__ = ["Facts", "State", "Status", "Use", "status_of"]

_SERVING_S = 10.0
_MEBIBYTE = 1 << 20


class State(StrEnum):
    """What a worker is doing."""

    STARTING = "starting"
    FETCHING = "fetching"
    READY = "ready"
    SERVING = "serving"
    IDLE_NO_DEMAND = "idle_no_demand"
    PAUSED_USER = "paused_user"
    PAUSED_BATTERY = "paused_battery"
    PAUSED_HOT = "paused_hot"
    PAUSED_METERED = "paused_metered"
    PAUSED_SCHEDULE = "paused_schedule"
    PAUSED_BUSY = "paused_busy"
    PAUSED_QUOTA = "paused_quota"
    PROBATION = "probation"
    UNREACHABLE = "unreachable"
    KICKED = "kicked"
    DRAINING = "draining"
    ERROR = "error"

    @property
    def is_paused(self) -> bool:
        """Whether it rests for a cause of this machine's or its user's."""
        return self.value.startswith("paused_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What is taken of this machine beside what may be; 0 for a limit: there is none.

    cpus: processors kept busy in the last seconds. disk_bytes: of the shard store.
    day_bytes: sent and received since midnight, local time.
    """

    cpus: float = 0.0
    max_cpus: int = 0
    memory_bytes: int = 0
    max_memory_bytes: int = 0
    disk_bytes: int = 0
    max_disk_bytes: int = 0
    up_bytes_s: float = 0.0
    max_up_bytes_s: float = 0.0
    down_bytes_s: float = 0.0
    day_bytes: int = 0
    max_day_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class Facts:
    """What is the case, as the parts of the worker last reported it."""

    error: str = ""
    draining: str = ""
    kicked: str = ""  # why, if the market will not have it
    kicked_ends: str = ""
    probation: str = ""  # how far it is, if the market is still watching it
    probation_ends: str = ""
    pauses: tuple[Pause, ...] = ()  # all that hold, in the order of `Cause`
    readings: Readings = NOTHING_KNOWN  # of the sensors
    duty: float = 1.0  # the part of the time that it computes; below 1 when warm
    use: Use = field(default_factory=Use)
    doing: str = "reading its key"  # until it has joined
    kernel: str = ""  # what it computes with
    joined: bool = False
    relay_is_up: bool = False
    relay_detail: str = ""
    relay_heard_s: float | None = None  # since anything was read of a relay
    is_asking: bool = False  # the market, for experts, and since a moment
    n_leased: int = 0
    n_held: int = 0
    fetched_bytes: int = 0
    leased_bytes: int = 0
    problem: str = ""  # why fetching does not get on, if it does not
    idle_s: float = float("inf")  # since the last dispatch
    served: int = 0  # servings since the start
    served_last_minute: int = 0
    served_today: int = 0  # since midnight, local time, over restarts
    earned_today_uc: int = 0  # signed by backbones, likewise
    accepted: int = 0
    signed: int = 0
    signed_uc: int = 0
    waiting_to_file: int = 0
    rejected: int = 0
    rejected_by_reason: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    major_faults_s: float = 0.0  # page faults that waited for the disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A state with its reason, and since when (seconds, monotonic) it holds.

    ends_when: words. override: the command that ends a pause now, or "".
    """

    state: State
    reason: str
    since: float
    ends_when: str = ""
    override: str = ""

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
    ends_when: Callable[[Facts], str]
    override: Callable[[Facts], str] = lambda _: ""


def _fetching(facts: Facts) -> str:
    experts = f"{facts.n_held}/{facts.n_leased} experts"
    if not facts.leased_bytes and not facts.problem:  # the manifest is on its way
        return experts
    n_bytes = (
        f"{facts.fetched_bytes / _MEBIBYTE:.1f} of "
        f"{facts.leased_bytes / _MEBIBYTE:.1f} MB"
    )
    problem = f", {facts.problem}" if facts.problem else ""
    return f"{experts}, {n_bytes}{problem}"


def _no_experts(facts: Facts) -> str:
    if facts.is_asking:
        return "asks the market for experts"
    return "the market has no experts for this worker yet, waiting"


def _serving(facts: Facts) -> str:
    on_probation = f"; on probation, {facts.probation}" if facts.probation else ""
    slower = (
        f"; at {100 * facts.duty:.0f} % of its speed, being warm"
        if facts.duty < 1
        else ""
    )
    held = f"{facts.n_held} experts, {facts.served_last_minute} servings a minute"
    return f"{held}{on_probation}{slower}"


def _pause_of(facts: Facts, cause: Cause) -> Pause | None:
    return next((pause for pause in facts.pauses if pause.cause is cause), None)


def _paused(cause: Cause) -> _Row:
    """Return the line of one cause; its reason names the others that hold, too."""

    def read(what: Callable[[Pause], str]) -> Callable[[Facts], str]:
        def of(facts: Facts) -> str:
            pause = _pause_of(facts, cause)
            return what(pause) if pause is not None else ""

        return of

    def reason(facts: Facts) -> str:
        others = [p.reason for p in facts.pauses if p.cause is not cause]
        return "; also ".join([read(lambda pause: pause.reason)(facts), *others])

    return _Row(
        State(f"paused_{cause}"),
        lambda facts: _pause_of(facts, cause) is not None,
        reason,
        read(lambda pause: pause.ends_when),
        read(lambda pause: pause.override),
    )


_TABLE = (
    _Row(
        State.ERROR,
        lambda f: bool(f.error),
        lambda f: f.error,
        lambda _: "the process ends",
    ),
    _Row(
        State.DRAINING,
        lambda f: bool(f.draining),
        lambda f: f.draining,
        lambda _: "running work is finished and the last voucher signed",
    ),
    _Row(
        State.KICKED,
        lambda f: bool(f.kicked),
        lambda f: f.kicked,
        lambda f: f.kicked_ends,
    ),
    _Row(
        State.STARTING,
        lambda f: not f.joined,
        lambda f: f.doing,
        lambda _: "the relay answers",
    ),
    *(_paused(cause) for cause in Cause),
    _Row(
        State.UNREACHABLE,
        lambda f: not f.relay_is_up,
        lambda f: f.relay_detail,
        lambda _: "the link to the relay is back",
    ),
    _Row(
        State.FETCHING,
        lambda f: f.n_held < f.n_leased,
        _fetching,
        lambda _: "the last leased expert is in memory",
    ),
    _Row(
        State.SERVING,
        lambda f: f.n_leased > 0 and f.idle_s < _SERVING_S,
        _serving,
        lambda _: "no dispatch comes for 10 s",
    ),
    _Row(
        State.PROBATION,
        lambda f: bool(f.probation),
        lambda f: f"{f.probation}, holds {f.n_held} experts",
        lambda f: f.probation_ends,
    ),
    _Row(
        State.READY,
        lambda f: f.n_leased > 0,
        lambda f: f"holds {f.n_held} experts, waiting for work",
        lambda _: "a backbone sends work",
    ),
    _Row(
        State.IDLE_NO_DEMAND,
        lambda _: True,
        _no_experts,
        lambda _: "the market leases it experts",
    ),
)


def status_of(facts: Facts, now: float, previous: Status | None = None) -> Status:
    """Return the state that the facts amount to; it keeps its `since` if unchanged."""
    row = next(row for row in _TABLE if row.holds(facts))
    same = previous is not None and previous.state == row.state
    since = previous.since if same and previous is not None else now
    return Status(
        state=row.state,
        reason=row.reason(facts),
        since=since,
        ends_when=row.ends_when(facts),
        override=row.override(facts),
    )
