"""A market's book whose workers answer canaries, honestly or not."""

from collections.abc import Callable, Iterable
from random import Random

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Audit, Canary, CanaryAnswer, CheckOutcome, Verdict
from mobile_worker.shards.manifest import Manifest, manifest_hash
from mobile_worker.standing import StandingState
from p2pmoe.market.book import Book, MarketSettings
from p2pmoe.market.canaries import CanarySettings
from p2pmoe.market.outgoing import Send
from p2pmoe.market.remembered import Remembered
from relay.keys import PeerId
from tests.support.market_book import BookWorld, of_type
from tests.support.market_peers import identity_of, make_manifest

__all__ = [
    "BACKBONE",
    "LEDGER",
    "MODEL",
    "NAME",
    "PERIOD_S",
    "AuditedWorld",
    "honest",
    "wrong",
]

MODEL = make_manifest(n_layers=3, n_experts=8)
NAME = manifest_hash(MODEL)
BACKBONE, LEDGER = "backbone", "ledger"

PERIOD_S = 300.0
_RENEWED_S = 30.0

Says = Callable[[Canary, ExpertId], bytes | None]


def honest(canary: Canary, expert: ExpertId) -> bytes | None:
    """What everybody with the expert says."""
    seed = canary.seed or bytes(canary.rows)
    return (seed[:8] + expert.packed.to_bytes(8, "big"))[:16].ljust(16, b"-")


def wrong(canary: Canary, expert: ExpertId) -> bytes | None:
    """What no honest one says."""
    return b"wrong-" + expert.packed.to_bytes(10, "big")


class AuditedWorld(BookWorld):
    """Peers by name; `says` tells how each answers, None: not at all."""

    def __init__(
        self, remembered: Remembered | None = None, *, period_s: float = PERIOD_S
    ) -> None:
        super().__init__(remembered)
        self.book = Book(
            MarketSettings(
                network=identity_of("network").peer_id,
                sign=identity_of("market").sign,
                tie_salt=b"salt",
                first_serial=0,
                canaries=CanarySettings(period_s=period_s),
                random=Random(5),
            ),
            self.remembered,
        )
        self._peers: dict[str, PeerId] = {}
        self._names: dict[PeerId, str] = {}
        self.says: dict[str, Says | None] = {}
        self._n_seen = 0

    def start(self, workers: Iterable[str], model: Manifest = MODEL) -> None:
        """List a model; each worker, in a domain of its own name, holds all of it."""
        self.notice(BACKBONE, model)
        self.demand(BACKBONE, manifest_hash(model), has_disk=False)
        for name in workers:
            self.join(name)

    def join(
        self,
        name: str,
        *,
        domain: str | None = None,
        slots: int = 24,
        device_class: int = 1,
    ) -> list[Send]:
        """A worker offers, is leased what there is, and reports it held."""
        sends = self.offer(
            name,
            slots,
            domain=name if domain is None else domain,
            device_class=device_class,
        )
        self.after(0.3)
        for lease in self.book.leases.of_worker(self.peer(name)):
            sent = self.lease(name)
            assert sent.lease == lease.lease_id
            self.held(name, sent)
        return sends

    def pass_time(self, seconds: float) -> None:
        """Let time pass; leases are renewed, canaries answered as they go out."""
        end = self.now + seconds
        while self.now < end:
            until = min(end, self.now + _RENEWED_S)
            self.book.leases.renew_all(self.now)
            for listing in self.book.roster.listings.values():
                listing.heard_at = self.now
            while (due := self.book.next_due()) is not None and due <= until:
                self.now = max(self.now, due)
                self.take(self.book.tick(self.now))
                self.answer_canaries()
            self.now = until

    def answer_canaries(self) -> None:
        """Have everybody answer what was sent since the last time."""
        news, self._n_seen = self.sent[self._n_seen :], len(self.sent)
        for send in news:
            if isinstance(send.message, Canary):
                name = self._names[send.peer]
                says = self.says.get(name, honest)
                if says is not None:
                    self.say(name, self.answer_of(send.message, says))

    def peer(self, name: str) -> PeerId:
        """Return the id of a name, which is known from now on."""
        found = self._peers.get(name)
        if found is None:
            found = self._peers[name] = super().peer(name)
            self._names[found] = name
        return found

    def answer_of(self, canary: Canary, says: Says) -> CanaryAnswer:
        """Return what a peer answers."""
        said = {e: says(canary, e) for e in canary.experts}
        named = {e: word for e, word in said.items() if word is not None}
        return CanaryAnswer(
            number=canary.number,
            experts=tuple(named),
            hashes=b"".join(named.values()),
            reason="" if len(named) == len(said) else "not now",
        )

    def say(self, name: str, message) -> list[Send]:
        """Somebody says something about checks."""
        return self.take(
            self.book.auditing.said(
                self.peer(name), message, self.now, is_ledger=name == LEDGER
            )
        )

    def audit(self, worker: str, outcome: CheckOutcome, n: int = 1, **by: str) -> None:
        """A backbone reports its own checks."""
        report = Audit(
            worker=self.peer(worker),
            manifest_hash=NAME,
            outcome=int(outcome),
            counts=((ExpertId(0, 0), n),),
        )
        self.say(by.get("by", BACKBONE), report)
        self.pass_time(0.5)

    def verdict(self, worker: str, outcome: CheckOutcome, case: bytes = b"v") -> None:
        """The ledger rules on a serving."""
        ruling = Verdict(
            worker=self.peer(worker),
            backbone=self.peer(BACKBONE),
            voucher_hash=case.ljust(32, b"-"),
            serving=0,
            outcome=int(outcome),
            referees=b"",
        )
        self.say(LEDGER, ruling)
        self.pass_time(0.5)

    def state(self, name: str) -> StandingState:
        """Return how a worker stands."""
        return self.book.auditing.standings.state(self.peer(name))

    def leased(self, name: str) -> bool:
        """Tell whether a worker has a lease."""
        return bool(self.book.leases.of_worker(self.peer(name)))

    def told(self, name: str, kind):
        """Return the last message of a kind to a worker, None if there is none."""
        found = of_type(self.sent, kind, PeerId(self.peer(name)))
        return found[-1] if found else None
