"""The backbone's side of the market: lists a model, reports use, learns who has what.

Decisions as values: `due` returns what is to be said now, `take` turns a PLACEMENT into
holders. Rules:

- the notice is said at start, when the relay or the market came back, when the market
  does not know us, and again while no placement has come (messages may be lost);
- a notice that was refused is said again after a pause, which doubles each time, and
  until then nothing is said: the market may be of another release, or full;
- use is reported every few seconds, and at once when the hot set changed;
- a placement is a full snapshot; an older serial than the last is ignored; a holder
  whose record does not verify is left out, never the whole snapshot.

Pure; times are monotonic seconds.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mobile_worker.device_class import DeviceClass
from mobile_worker.errors import RecordError
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.envelope import MessageType
from mobile_worker.messages.market import (
    Demand,
    ManifestNotice,
    Placement,
    Refused,
)
from mobile_worker.session.records import PeerRecord, parse_record
from p2pmoe.backbone.plan import Tier
from relay.keys import PeerId

__all__ = ["MarketClient", "MarketTerms", "Placed"]

log = logging.getLogger("p2pmoe.backbone")

NOTICE_AGAIN_S = 5.0
NOTICE_REFRESH_S = 120.0
_LONGEST_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketTerms:
    """What is listed: the manifest, signed, and whether a disk stands behind it."""

    manifest: bytes
    manifest_hash: bytes
    experts: frozenset[ExpertId]  # of the model; others in a placement are ignored
    signature: bytes
    record: Callable[[], bytes]  # our own record as it is now
    has_disk: bool
    demand_interval_s: float
    n_chosen: int = 1  # routed experts of a token in a layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A placement, checked: records to learn, and who holds what at which tier."""

    records: Sequence[PeerRecord]
    holders: Mapping[PeerId, tuple[Tier, Sequence[ExpertId]]]


class MarketClient:
    """What was said to the market and when."""

    def __init__(
        self,
        terms: MarketTerms,
        *,
        use: Callable[[], tuple[tuple[ExpertId, int], ...]],
        at_hand: Callable[[], tuple[ExpertId, ...]],
    ) -> None:
        """Report `use` since the last report and what is `at_hand`."""
        self._terms = terms
        self._use = use
        self._at_hand = at_hand
        self._serial = -1
        self._noticed_at: float | None = None
        self._placed = False
        self._silent_until = float("-inf")
        self._refused: list[str] = []  # reasons since the last placement
        self._demanded_at: float | None = None
        self._said_at_hand: tuple[ExpertId, ...] | None = None

    def due(self, now: float) -> list[ManifestNotice | Demand]:
        """Return what is to be sent to the market now."""
        said: list[ManifestNotice | Demand] = []
        if now < self._silent_until:
            return said
        wait = NOTICE_REFRESH_S if self._placed else NOTICE_AGAIN_S
        if self._noticed_at is None or now - self._noticed_at >= wait:
            self._noticed_at = now
            said.append(
                ManifestNotice(
                    manifest=self._terms.manifest,
                    signature=self._terms.signature,
                    backbone_record=self._terms.record(),
                )
            )
        at_hand = self._at_hand()
        interval = self._terms.demand_interval_s
        if (
            self._demanded_at is None
            or now - self._demanded_at >= interval
            or at_hand != self._said_at_hand
        ):
            self._demanded_at = now
            self._said_at_hand = at_hand
            counts = self._use()
            said.append(
                Demand(
                    manifest_hash=self._terms.manifest_hash,
                    counts=counts,
                    at_hand=at_hand,
                    has_disk=self._terms.has_disk,
                    n_tokens=_n_tokens(counts, self._terms.n_chosen),
                )
            )
        return said

    def say_again(self) -> None:
        """Say everything anew: the market may know nothing of us."""
        self._noticed_at = self._demanded_at = None
        self._placed = False
        self._serial = -1
        self._silent_until = float("-inf")

    def refused(self, refusal: Refused, now: float) -> bool:
        """Note what the market refuses; True if people have not heard of it."""
        is_silent = now < self._silent_until
        if refusal.what == MessageType.DEMAND:
            if not is_silent:
                self.say_again()
            return not is_silent
        if refusal.what == MessageType.MANIFEST and not is_silent:
            pause_s = NOTICE_AGAIN_S * 2 ** min(len(self._refused), 8)
            self.say_again()
            self._silent_until = now + min(pause_s, _LONGEST_PAUSE_S)
        is_news = refusal.reason not in self._refused
        self._refused = [*self._refused, refusal.reason][-8:]
        return is_news

    def take(self, placement: Placement) -> Placed | None:
        """Return what a placement says, None if it is another model's or old."""
        if placement.manifest_hash != self._terms.manifest_hash:
            return None
        if placement.serial <= self._serial:
            return None
        self._serial = placement.serial
        self._placed = True
        self._refused = []
        return self.read(placement)

    def read(self, placement: Placement) -> Placed:
        """Return what a placement says, whoever said it and when."""
        records = []
        holders: dict[PeerId, tuple[Tier, Sequence[ExpertId]]] = {}
        for holder in placement.holders:
            try:
                record = parse_record(holder.record)
            except RecordError as error:
                log.warning("a holder without a valid record is left out: %s", error)
                continue
            records.append(record)
            tier = Tier.HUB if holder.device_class == DeviceClass.HUB else Tier.EDGE
            known = [e for e in holder.experts if e in self._terms.experts]
            holders[record.peer_id] = (tier, known)
        return Placed(records=records, holders=holders)


def _n_tokens(counts: Iterable[tuple[ExpertId, int]], n_chosen: int) -> int:
    """Return how many tokens were routed: rows of the busiest layer, by its choices."""
    rows: dict[int, int] = {}
    for expert, n_rows in counts:
        rows[expert.layer] = rows.get(expert.layer, 0) + n_rows
    return min(max(rows.values(), default=0) // n_chosen, 0xFFFF_FFFF)
