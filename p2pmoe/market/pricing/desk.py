"""The market's prices: told what is paid and who holds what, it draws up the tables.

    lease changed, PAID -> kept
    an epoch begins     -> turn: papers of the epoch that is over, tables of the new one
    the file is written -> adopt: from now on the new tables are the ones that are told

A new table is told only once the file that names it is on the disk: a market that is
killed in between goes on with the old one, and no number ever names two tables. So
`turn` changes nothing that is told. A table's number is that of the epoch in which it
was drawn up, or the next free one where the clock was set back.

In the first two minutes, and in as many after our own relay was away, coverage is not
known, and an epoch that begins then changes no price; nor does one that comes sooner
than half an epoch after the last, by a clock that was set. Nobody is paid for standing
by in an epoch that began before us. What an epoch gives for it is divided among models
by their paid demand: anybody can list models, and copies of them.

Pure; `now` is monotonic seconds, `wall_us` microseconds since 1970.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ledger.prices import PriceTable
from ledger.standby import sign_standby
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.audits import Paid
from p2pmoe.market.lease import Lease, LeaseTable
from p2pmoe.market.price import PriceSettings, SignedPrices, signed_prices
from p2pmoe.market.pricing.epochs import MAX_EPOCH, Epoch, epoch_at
from p2pmoe.market.pricing.holdings import NOTHING, LeaseShare
from p2pmoe.market.pricing.model import ModelPrices, flat_rows
from p2pmoe.market.pricing.standby import (
    PaperTerms,
    Replica,
    SignedPaper,
    draw_up_paper,
)
from p2pmoe.market.roster import Roster
from relay.keys import PeerId

__all__ = ["DeskParts", "Judgement", "PriceDesk"]

_SETTLE_US = 120_000_000
_MAX_MODELS = 1_000
_MAX_ROWS = 1 << 19
Proven = Callable[[PeerId, bytes, ExpertId, float], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskParts:
    """What the desk works with. salt: secret and random, up to 64 bytes."""

    network: bytes
    sign: Callable[[bytes], bytes]
    salt: bytes
    settings: PriceSettings
    roster: Roster
    leases: LeaseTable


def _nobody(_peer: PeerId, _manifest: bytes, _expert: ExpertId, _now: float) -> bool:
    return False


def _everybody(_peer: PeerId) -> bool:
    return True


@dataclass(slots=True, kw_only=True)
class Judgement:
    """What checks say of workers.

    counts: whether a worker's replicas are coverage. proven: whether the latest check
    of a replica, by manifest hash, expert and the time, was passed and is recent.
    """

    counts: Callable[[PeerId], bool] = _everybody
    proven: Proven = _nobody


class PriceDesk:
    """All models' prices. See the module for the order of calls."""

    def __init__(
        self, parts: DeskParts, remembered: Mapping[bytes, ModelPrices]
    ) -> None:
        self.judgement = Judgement()
        self.version = 0
        self.n_opened = 0  # models whose table no file names yet
        self._parts = parts
        self._models = dict(remembered)
        self._drawn: dict[bytes, SignedPrices] = {}  # by manifest, as of the last turn
        self._told: dict[bytes, SignedPrices] = {}
        self._epoch_us = parts.settings.epoch_s * 1_000_000
        self._epoch: Epoch | None = None
        self._started_us: int | None = None
        self._settles_us = 0  # coverage is known from then on
        self._wall_us = 0
        self._turned_at = float("-inf")
        parts.leases.on_live = self.lease_changed

    @property
    def models(self) -> Mapping[bytes, ModelPrices]:
        """All models by manifest hash, to be written down and not changed."""
        return MappingProxyType(self._models)

    def synchronise(self, wall_us: int) -> None:
        """Take the time; the first call begins the market's watch."""
        self._wall_us = wall_us
        if self._started_us is None:
            self._started_us = wall_us
            self._epoch = epoch_at(wall_us, self._epoch_us)
            self.unsettle()

    def unsettle(self) -> None:
        """Who holds what is not known just now: our relay was away."""
        self._settles_us = self._wall_us + min(_SETTLE_US, self._epoch_us // 2)

    def open(self, manifest_hash: bytes, experts: Iterable[int]) -> SignedPrices:
        """Return the prices of a model that is listed, flat ones if it is new."""
        base_uc = self._parts.settings.base_uc
        model = self._models.get(manifest_hash)
        if model is None:
            model = ModelPrices(
                rows=flat_rows(experts),
                epoch=self._free_number(0),
                base_uc=base_uc,
                as_of_us=self._wall_us,
            )
            self._models[manifest_hash] = model
            self._forget_some()
            self.n_opened += 1
        elif model.base_uc != base_uc:
            model.base_uc = base_uc
            model.epoch = self._free_number(model.epoch)
            self._drawn.pop(manifest_hash, None)
            self._told.pop(manifest_hash, None)
            self.n_opened += 1
        told = self._told.get(manifest_hash)
        if told is None:
            told = self._told[manifest_hash] = self._signed(manifest_hash)
        return told

    def lease_changed(self, lease: Lease, *, by_market: bool = False) -> None:
        """Count a lease's live experts as they are now."""
        model = self._models.get(lease.deployment.manifest_hash)
        if model is None:
            return
        share = self._share(lease)
        before = model.holdings.share_of(lease.lease_id)
        if share != before:
            model.holdings.change(
                lease.lease_id, share, self._wall_us, by_market=by_market
            )

    def paid(self, paid: Paid) -> None:
        """The ledger tells what was paid for; unknown models are left out."""
        model = self._models.get(paid.manifest_hash)
        if model is not None:
            counts = ((expert.packed, n_rows) for expert, n_rows in paid.counts)
            span_us = (paid.from_us, paid.to_us)
            self.version += model.paid.take(span_us, counts, model.rows.keys())

    def due_us(self) -> int:
        """Return the instant at which the next epoch begins."""
        return self._epoch.to_us if self._epoch is not None else self._wall_us

    def turn(self, now: float, wall_us: int) -> list[SignedPaper] | None:
        """Look at all prices if an epoch has begun; None if none has.

        Returns the papers of the epoch that is over. What follows from the look is told
        after `adopt`.
        """
        self.synchronise(wall_us)
        epoch, over = epoch_at(wall_us, self._epoch_us), self._epoch
        if over is None or epoch.number <= over.number:
            self._epoch = epoch
            return None
        if now < self._turned_at + self._parts.settings.epoch_s / 2:
            return None
        self._epoch, self._turned_at = epoch, now
        self._sweep()
        papers = list(self._papers(over, now))
        is_settled = wall_us >= self._settles_us
        for name in {each.manifest_hash for each in self._parts.roster.listings}:
            model = self._models[name]
            model.paid.begin_epoch()
            if is_settled and model.look(wall_us):
                model.epoch = self._free_number(model.epoch)
                self._drawn[name] = self._signed(name)
        self.version += 1
        return papers

    def adopt(self) -> dict[bytes, SignedPrices]:
        """Return the tables that are new since the last call; these are told now."""
        changed, self._drawn = self._drawn, {}
        self._told.update(changed)
        return changed

    def _papers(self, over: Epoch, now: float) -> Iterator[SignedPaper]:
        is_next = self._epoch is not None and self._epoch.number == over.number + 1
        if self._started_us is None or self._started_us > over.from_us or not is_next:
            return
        parts = self._parts
        since = now - (self._wall_us - over.from_us) / 1e6
        for name, pot_uc in self._pots().items():
            told, model = self._told.get(name), self._models[name]
            if told is None or not pot_uc:
                continue
            terms = PaperTerms(
                network=parts.network, standby_uc=pot_uc, salt=parts.salt
            )
            replicas = self._replicas(name, since, now)
            paper = draw_up_paper(
                terms, (name, model), told.content_hash, over, replicas
            )
            if paper is not None:
                raw = paper.pack()
                yield SignedPaper(raw, sign_standby(raw, parts.sign), paper.to_us)

    def _pots(self) -> dict[bytes, int]:
        """Return each model's part of what an epoch gives; all of it to an only one."""
        most_uc = self._parts.settings.standby_uc
        names = sorted({each.manifest_hash for each in self._parts.roster.listings})
        if len(names) == 1:
            return {names[0]: most_uc}
        paid = {name: sum(self._models[name].paid.units.values()) for name in names}
        total = max(1, sum(paid.values()))
        return {name: most_uc * units // total for name, units in paid.items()}

    def _replicas(self, name: bytes, since: float, now: float) -> Iterator[Replica]:
        """Yield what has been held since an instant, by workers that count."""
        proven = self.judgement.proven
        for deployment in self._parts.roster.listings:
            if deployment.manifest_hash != name:
                continue
            for lease in self._parts.leases.of_deployment(deployment):
                share = self._share(lease)
                if not share.experts:
                    continue
                for expert, held_at in lease.held_since.items():
                    if held_at <= since and proven(lease.worker, name, expert, now):
                        yield Replica(expert.packed, lease.worker, share.domain)

    def _share(self, lease: Lease) -> LeaseShare:
        live = lease.live
        worker = self._parts.roster.workers.get(lease.worker)
        if not live or worker is None or not self.judgement.counts(lease.worker):
            return NOTHING
        return LeaseShare(
            worker.device.domain,
            worker.device.availability,
            frozenset(expert.packed for expert in live),
        )

    def _sweep(self) -> None:
        """Count anew whoever is counted otherwise now: a standing that has changed."""
        for lease in self._parts.leases:
            model = self._models.get(lease.deployment.manifest_hash)
            if model is None:
                continue
            before = model.holdings.share_of(lease.lease_id)
            worker = self._parts.roster.workers.get(lease.worker)
            if worker is None:
                continue
            counts = self.judgement.counts(lease.worker)
            device = worker.device
            if bool(before.experts) != (counts and bool(lease.live)):
                self.lease_changed(lease, by_market=True)
            elif before.experts and (before.domain, before.availability) != (
                device.domain,
                device.availability,
            ):
                self.lease_changed(lease)

    def _signed(self, name: bytes) -> SignedPrices:
        model = self._models[name]
        table = PriceTable(
            network=self._parts.network,
            manifest_hash=name,
            epoch=model.epoch,
            base_uc=model.base_uc,
            multipliers=model.table,
        )
        return signed_prices(table, self._parts.sign)

    def _free_number(self, used: int) -> int:
        number = epoch_at(self._wall_us, self._epoch_us).number
        return min(max(number, used + 1), MAX_EPOCH)

    def _forget_some(self) -> None:
        """Keep a thousand models, and half a million experts; unlisted ones go first.

        Those that are listed are bounded by the roster.
        """
        n_rows = sum(len(model.rows) for model in self._models.values())
        listed = {each.manifest_hash for each in self._parts.roster.listings}
        newest = next(reversed(self._models))
        for name in sorted(self._models, key=lambda n: self._models[n].as_of_us):
            if len(self._models) <= _MAX_MODELS and n_rows <= _MAX_ROWS:
                return
            if name not in listed and name != newest:
                n_rows -= len(self._models.pop(name).rows)
                self._told.pop(name, None)
