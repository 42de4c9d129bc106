"""How each worker stands: its checks, what was found wrong, and what follows.

    checks passed        canaries and audited servings; a backbone's own checks count as
                         often as those at most, since backbones are cheap to make
    probation            below 20 passes (200 after a suspension, 20 more for each key
                         of its domain that was convicted): replicas do not count as
                         coverage, at most 256 experts are leased
    one conviction       leases revoked, passes gone, no leases for an hour
    two                  the key is refused for good
    three of a domain    its new keys are taken no more for a day
    a backbone's word    alone ends the business with that backbone, nothing more; three
                         keys of a domain that it found wrong bar its new keys there

Silence is counted apart and convicts nobody. What fell into an incident is taken back.
A conviction is named by its case, so that hearing of it twice counts once. Of those who
are away the 100,000 that left last are known, and 100,000 convicted ones. All but
strikes and times survives a restart; a suspension then begins anew. Domains are what a
worker's device has now; the empty one is nobody's. Pure; times are monotonic seconds.
Source: design/06, "Verification"; faults B34.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

from mobile_worker.standing import StandingReason, StandingState
from p2pmoe.market.incidents import Window
from relay.keys import PeerId

__all__ = [
    "AFTER_SUSPENSION_PASSES",
    "ESTABLISHED_PASSES",
    "NEIGHBOURS",
    "NEIGHBOURS_S",
    "PROBATION_PASSES",
    "SUSPENSION_S",
    "Record",
    "Standings",
    "Strike",
]

PROBATION_PASSES = 20
AFTER_SUSPENSION_PASSES = 200
ESTABLISHED_PASSES = 200
SUSPENSION_S = 3600.0
NEIGHBOURS = 3
NEIGHBOURS_S = 86_400.0
_CASES_TO_REFUSE = 2
_MAX_STRIKES = 10_000
_MAX_ACCUSERS = 8
_MAX_KEPT = 64  # convictions of one domain
_MAX_AWAY = 100_000  # keys, and as many convicted ones: keys are made for nothing
_MAX_PLACES = 100_000  # domains, and pairs of backbone and domain
_UNBEGUN = float("inf")  # a time of an earlier run, which begins anew
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Strike(Enum):
    """What an incident may take back."""

    SILENT = auto()
    MISMATCH = auto()
    ACCUSED = auto()


@dataclass(slots=True, kw_only=True)
class Record:
    """What is known of one key. Changed only by `Standings`."""

    domain: str = ""
    passes: int = 0
    vouched: int = 0  # passes by backbones' own word
    mismatches: int = 0
    timeouts: int = 0
    reason: StandingReason = StandingReason.NEW
    cases: tuple[bytes, ...] = ()  # by which it was convicted, 32 bytes each
    accusers: tuple[PeerId, ...] = ()  # backbones that found it wrong

    @property
    def credit(self) -> int:
        """The passes that count."""
        return self.passes + min(self.vouched, self.passes)

    @property
    def is_refused(self) -> bool:
        """Whether the key is not taken any more."""
        return len(self.cases) >= _CASES_TO_REFUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Struck:
    peer: PeerId
    at: float
    kind: Strike
    n: int = 1
    backbone: PeerId | None = None


class Standings:
    """All records. `changed` names the keys whose record is to be written and told."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self.changed: set[PeerId] = set()
        self._records: dict[PeerId, Record] = {}
        self._away: dict[PeerId, None] = {}  # who left first comes first
        self._away_convicted: dict[PeerId, None] = {}
        self._suspended: dict[PeerId, float] = {}  # until
        self._convicted_at: dict[str, deque[float]] = {}  # by domain
        self._accused: dict[tuple[PeerId, str], set[PeerId]] = {}  # backbone, domain
        self._strikes: deque[_Struck] = deque(maxlen=_MAX_STRIKES)
        self._is_begun = False

    @property
    def records(self) -> Mapping[PeerId, Record]:
        """All that is known, by key."""
        return self._records

    def of(self, peer: PeerId) -> Record:
        """Return what is known of a key; an empty record if nothing is."""
        return self._records.get(peer) or Record()

    def restored(self, records: Mapping[PeerId, Record]) -> None:
        """Take over what was remembered; times begin anew at the first `expire`."""
        self._records.update(records)
        for peer, record in records.items():
            if record.cases:
                self._neighbour(record.domain, _UNBEGUN)
                if record.passes == 0:
                    self._suspended[peer] = _UNBEGUN
            for backbone in record.accusers:
                self._accuse(backbone, record.domain, peer)
            self._away[peer] = None
        self._trim()

    def forget(self, peer: PeerId) -> None:
        """Drop a key that has left, if nothing is known of it; else keep it so long."""
        record = self._records.get(peer)
        if record is None:
            return
        if record == Record(domain=record.domain):
            self._drop(peer)
        else:
            self._away[peer] = None
            self._trim()

    # What is learned.

    def met(self, peer: PeerId, domain: str) -> None:
        """Note where a key is now; it is there."""
        self._away.pop(peer, None)
        self._away_convicted.pop(peer, None)
        if peer not in self._records or self._records[peer].domain != domain:
            self._touch(peer).domain = domain

    def passed(self, peer: PeerId, n: int = 1) -> None:
        """Count checks that found it right."""
        record = self._touch(peer)
        record.passes += n
        if record.credit >= self.needed(peer):
            record.reason = StandingReason.CHECKED

    def vouched(self, peer: PeerId, n: int) -> None:
        """Count checks that passed by a backbone's own word."""
        self._touch(peer).vouched += n

    def silent(
        self, peer: PeerId, n: int, now: float, backbone: PeerId | None = None
    ) -> None:
        """Count checks that were not answered in time: no fault is proved by it.

        `backbone`: whose word it is, if it is one's.
        """
        self._touch(peer).timeouts += n
        kind = Strike.SILENT
        self._strike(_Struck(peer=peer, at=now, kind=kind, n=n, backbone=backbone))

    def doubted(self, peer: PeerId, now: float) -> None:
        """Count a result that differs from another's, while nobody can say whose."""
        self._touch(peer).mismatches += 1
        self._strike(_Struck(peer=peer, at=now, kind=Strike.MISMATCH))

    def accused(self, peer: PeerId, backbone: PeerId, n: int, now: float) -> bool:
        """Note that a backbone found it wrong; True if it had not before."""
        record = self._touch(peer)
        record.mismatches += n
        self._strike(
            _Struck(peer=peer, at=now, kind=Strike.MISMATCH, n=n, backbone=backbone)
        )
        if backbone in record.accusers:
            return False
        record.accusers = (*record.accusers, backbone)[-_MAX_ACCUSERS:]
        self._accuse(backbone, record.domain, peer)
        self._strike(_Struck(peer=peer, at=now, kind=Strike.ACCUSED, backbone=backbone))
        return True

    def convict(
        self, peer: PeerId, reason: StandingReason, case: bytes, now: float
    ) -> bool:
        """Note a confirmed wrong result; False if this case is known already."""
        if case in self.of(peer).cases:
            return False
        record = self._touch(peer)
        record.passes = record.vouched = 0
        record.mismatches += 1
        record.reason = reason
        record.cases = (*record.cases, case)[-_CASES_TO_REFUSE:]
        self._suspended[peer] = now + SUSPENSION_S
        self._neighbour(record.domain, now)
        return True

    def pardon(self, window: Window) -> None:
        """Take back what fell into an incident."""
        kept = deque[_Struck](maxlen=_MAX_STRIKES)
        for each in self._strikes:
            if window.covers(each.at, each.backbone):
                self._take_back(each)
            else:
                kept.append(each)
        self._strikes = kept

    # What follows.

    def needed(self, peer: PeerId) -> int:
        """Return how many passes end its probation."""
        record = self.of(peer)
        if record.cases:
            return AFTER_SUSPENSION_PASSES
        neighbours = len(self._convicted_at.get(record.domain, ()))
        return PROBATION_PASSES * (1 + neighbours)

    def state(self, peer: PeerId) -> StandingState:
        """Return what the key may do, as of the last `expire`."""
        record = self.of(peer)
        if record.is_refused:
            return StandingState.REFUSED
        if peer in self._suspended:
            return StandingState.SUSPENDED
        if record.credit < self.needed(peer):
            return StandingState.PROBATION
        return StandingState.GOOD

    def suspended_s(self, peer: PeerId, now: float) -> float:
        """Return the seconds until its suspension is over, 0 if there is none."""
        return max(0.0, self._suspended.get(peer, now) - now)

    def may_convict(self, voice: PeerId, accused: PeerId) -> bool:
        """Tell whether a device is known well enough for its word against another's.

        Names are cheap: nobody convicts who is better known than itself, unless it is
        past a newcomer's checks.
        """
        least = min(ESTABLISHED_PASSES, self.of(accused).credit)
        return self.of(voice).credit >= least

    def closed_s(self, domain: str, now: float) -> float:
        """Return for how long a domain's new keys are not taken yet; 0 if they are."""
        convicted = [min(at, now) for at in self._convicted_at.get(domain, ())]
        recent = [at for at in convicted if now - at < NEIGHBOURS_S]
        if len(recent) < NEIGHBOURS:
            return 0.0
        return recent[-NEIGHBOURS] + NEIGHBOURS_S - now

    def expire(self, now: float) -> None:
        """Let time pass: end suspensions that are over."""
        for peer, until in list(self._suspended.items()):
            if until == _UNBEGUN:
                self._suspended[peer] = now + SUSPENSION_S
            elif until <= now:
                del self._suspended[peer]
                self._touch(peer)
        if not self._is_begun:
            self._is_begun = True
            for convicted in self._convicted_at.values():
                convicted.extend([now] * len(convicted))
                while convicted[0] == _UNBEGUN:
                    convicted.popleft()

    def next_due(self) -> float | None:
        """Return when a suspension is over next."""
        return min(self._suspended.values(), default=None)

    def is_barred(self, peer: PeerId, backbone: PeerId) -> bool:
        """Tell whether a backbone is done with this key, or with its kind."""
        record = self.of(peer)
        if backbone in record.accusers:
            return True
        if not record.domain or record.credit >= self.needed(peer):
            return False
        return len(self._accused.get((backbone, record.domain), ())) >= NEIGHBOURS

    def has_accused(self, backbone: PeerId) -> bool:
        """Tell whether a backbone has found anybody wrong."""
        return any(key[0] == backbone for key in self._accused)

    def take_changed(self) -> list[PeerId]:
        """Return whose record has changed since the last time."""
        changed, self.changed = sorted(self.changed), set()
        return changed

    def _touch(self, peer: PeerId) -> Record:
        self.changed.add(peer)
        return self._records.setdefault(peer, Record())

    def _neighbour(self, domain: str, now: float) -> None:
        if domain:
            convicted = self._convicted_at.setdefault(domain, deque(maxlen=_MAX_KEPT))
            convicted.append(now)
            _trim_oldest(self._convicted_at, _MAX_PLACES)

    def _accuse(self, backbone: PeerId, domain: str, peer: PeerId) -> None:
        self._accused.setdefault((backbone, domain), set()).add(peer)
        _trim_oldest(self._accused, _MAX_PLACES)

    def _trim(self) -> None:
        """Forget those who left longest ago, above what is kept."""
        while len(self._away) > _MAX_AWAY:
            peer = next(iter(self._away))
            del self._away[peer]
            if self._records[peer].cases:
                self._away_convicted[peer] = None
            else:
                self._drop(peer)
        while len(self._away_convicted) > _MAX_AWAY:
            self._drop(next(iter(self._away_convicted)))

    def _drop(self, peer: PeerId) -> None:
        record = self._records.pop(peer)
        self.changed.discard(peer)
        self._suspended.pop(peer, None)
        self._away.pop(peer, None)
        self._away_convicted.pop(peer, None)
        for backbone in record.accusers:
            accused = self._accused.get((backbone, record.domain), set())
            accused.discard(peer)
            if not accused:
                self._accused.pop((backbone, record.domain), None)

    def _take_back(self, struck: "_Struck") -> None:
        record = self._touch(struck.peer)
        match struck.kind:
            case Strike.SILENT:
                record.timeouts = max(0, record.timeouts - struck.n)
            case Strike.MISMATCH:
                record.mismatches = max(0, record.mismatches - struck.n)
            case Strike.ACCUSED:
                others = (b for b in record.accusers if b != struck.backbone)
                record.accusers = tuple(others)
                for key, accused in self._accused.items():
                    if key[0] == struck.backbone:
                        accused.discard(struck.peer)

    def _strike(self, struck: "_Struck") -> None:
        self._strikes.append(struck)


def _trim_oldest(kept: dict[_Key, _Value], most: int) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]
