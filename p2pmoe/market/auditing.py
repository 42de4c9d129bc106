"""Checks of workers, put together: canaries, the ledger's questions, standing.

The book tells what happens (`entered`, `held`, `left`, ...) and hands messages in
(`said`); `tick` does what is due. What comes out are messages, and by `take_kicks` the
leases that the book is to revoke. Only the network's ledger is believed on RECOMPUTE
and VERDICT, only a backbone that lists the model on AUDIT, and within its own
deployment alone.

Looks into the book's tables and changes none but what a device accepts. Pure but for
the random generator; times are monotonic seconds.
Source: design/06, "Verification"; faults B33, B34.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import (
    Audit,
    CanaryAnswer,
    CheckOutcome,
    Message,
    MessageType,
    Recompute,
    Refused,
    Verdict,
)
from mobile_worker.standing import StandingReason, StandingState
from p2pmoe.market.audit_views import AuditViews
from p2pmoe.market.canaries import Canaries, CanarySettings
from p2pmoe.market.canary_round import CanaryRound
from p2pmoe.market.deployments import Listing
from p2pmoe.market.incidents import Incidents
from p2pmoe.market.judging import Ruling, judge
from p2pmoe.market.lease import Deployment, Lease, LeaseTable
from p2pmoe.market.outgoing import Send
from p2pmoe.market.proofs import Proofs
from p2pmoe.market.referee import Referee
from p2pmoe.market.remembered import Remembered
from p2pmoe.market.roster import Roster, Worker
from p2pmoe.market.standing import Standings
from p2pmoe.market.telling import Telling
from relay.keys import PeerId, short_id

__all__ = ["Auditing", "AuditingParts", "Kick"]

_LOG = logging.getLogger("p2pmoe.market")
_MAX_COUNT = 10_000  # checks that one AUDIT may report
_FEW_DOMAINS = 3  # below, silence says nothing of the network


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditingParts:
    """The book's tables, and what is drawn by chance."""

    roster: Roster
    leases: LeaseTable
    remembered: Remembered
    random: Random
    settings: CanarySettings = field(default_factory=CanarySettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kick:
    """What the book is to revoke: one lease of a worker, or all (None)."""

    peer: PeerId
    lease: Lease | None
    reason: str


class Auditing:
    """All checks, and what is known of workers by them."""

    def __init__(self, parts: AuditingParts) -> None:
        """Begin with what was remembered."""
        self._parts = parts
        self.standings = Standings()
        self.standings.restored(parts.remembered.standing.records)
        self.incidents = Incidents()
        self.proofs = Proofs(parts.settings.period_s)
        self._views = AuditViews(
            parts.roster, parts.leases, self.standings, parts.random
        )
        self._canaries = Canaries(parts.settings, parts.random, self._views.listed)
        self._referee = Referee(self._views.candidates(), parts.random)
        self._telling = Telling(self.standings)
        self._kicks: list[Kick] = []
        self._risen: list[Worker] = []

    # What others ask.

    def counts(self, peer: PeerId) -> bool:
        """Tell whether a worker's replicas count as coverage for money."""
        return self.standings.state(peer) is StandingState.GOOD

    def passed_at(
        self, peer: PeerId, manifest_hash: bytes, expert: ExpertId
    ) -> float | None:
        """Return when a replica last passed a canary, None if it has not."""
        return self.proofs.passed_at(peer, manifest_hash, expert)

    def is_proven(
        self, peer: PeerId, manifest_hash: bytes, expert: ExpertId, now: float
    ) -> bool:
        """Tell whether a replica has lately been seen to be there."""
        return self.proofs.is_proven(peer, manifest_hash, expert, now)

    # What the book tells.

    def entered(self, worker: Worker, now: float) -> tuple[list[Send], bool]:
        """A worker has offered; return what it is told, and whether it may stay."""
        peer, standings = worker.peer, self.standings
        standings.expire(now)
        standings.met(peer, worker.device.domain)
        state, closed_s = standings.state(peer), self._closed_s(worker, now)
        for listing in self._parts.roster.listings.values():
            self._bar(worker, listing)
        worker.device.on_probation = state is StandingState.PROBATION
        told = [self._telling.tell(peer, now, closed_s=closed_s)]
        if state is StandingState.REFUSED:
            what = int(MessageType.OFFER)
            told.append(Send(peer, Refused(what=what, reason="this key is refused")))
        return told, not (state.is_kicked or closed_s > 0)

    def moved(self, worker: Worker, now: float) -> None:
        """A relay says where a worker is: it may have offered under another name."""
        peer, domain = worker.peer, worker.device.domain
        if self.standings.of(peer).domain == domain:
            return
        self.standings.met(peer, domain)
        if self._closed_s(worker, now) > 0:
            reason = "several keys of this failure domain gave wrong results of late"
            self._kicks.append(Kick(peer=peer, lease=None, reason=reason))
        for listing in self._parts.roster.listings.values():
            self._bar(worker, listing)
        for lease in self._parts.leases.of_worker(peer):
            if self.standings.is_barred(peer, lease.deployment.backbone):
                reason = "the backbone found wrong results of this failure domain"
                self._kicks.append(Kick(peer=peer, lease=lease, reason=reason))

    def listed(self, listing: Listing, now: float) -> None:
        """A backbone lists a model."""
        experts = [shard.expert for shard in listing.shards]
        self._canaries.begin(listing.deployment.manifest_hash, experts, now)
        if self.standings.has_accused(listing.deployment.backbone):
            for worker in self._parts.roster.workers.values():
                self._bar(worker, listing)

    def held(self, lease: Lease, now: float) -> None:
        """A worker has experts newly ready: those held since now."""
        new = [expert for expert, at in lease.held_since.items() if at == now]
        self._canaries.held(lease.deployment.manifest_hash, lease.worker, new, now)

    def left(self, peer: PeerId, now: float) -> list[Send]:
        """A worker is there no more."""
        if any(d.backbone == peer for d in self._parts.roster.listings):
            self.standings.pardon(self.incidents.backbone_is_away(peer, now))
        self.excuse(peer)
        self.proofs.forget(peer)
        self._telling.forget(peer)
        self.standings.forget(peer)
        return self._referee.lost(peer, now)

    def excuse(self, peer: PeerId) -> None:
        """The network lost a peer, or what was said to it."""
        self._canaries.excuse(peer)

    def relay_is_away(self, now: float) -> None:
        """Our own relay link is down."""
        self.standings.pardon(self.incidents.relay_is_away(now))

    def relay_is_back(self, now: float) -> None:
        """Our own relay link is up again."""
        self.incidents.relay_is_back(now)

    def said(
        self, peer: PeerId, message: Message, now: float, *, is_ledger: bool
    ) -> list[Send]:
        """Take what a peer says about checks; anything else is ignored."""
        match message:
            case CanaryAnswer():
                self._canaries.answered(peer, message)
                return self._referee.answered(peer, message, now)
            case Audit():
                self._reported(peer, message, now)
            case Recompute() if is_ledger:
                return self._referee.asked(peer, message, now)
            case Verdict() if is_ledger:
                self._ruled(message, now)
            case _:
                pass
        return []

    # What time says.

    def tick(self, now: float) -> list[Send]:
        """Close and open rounds, ask further referees, tell what has changed."""
        self.standings.expire(now)
        for closed in self._canaries.take_closed(now):
            self._close(closed, now)
        sends = [*self._canaries.tick(now), *self._referee.tick(now)]
        changed = self.standings.take_changed()
        for peer in changed:
            self._parts.remembered.note_standing(peer, self.standings.of(peer))
            self._note_rise(peer)
        self._telling.changed(changed)
        return [*sends, *self._telling.take(self._parts.roster.workers, now)]

    def told(self, peer: PeerId, now: float) -> Send:
        """Return what a worker is told of its standing."""
        return self._telling.tell(peer, now)

    def take_risen(self) -> list[Worker]:
        """Return the workers whose probation is over: they may hold more."""
        risen, self._risen = self._risen, []
        return risen

    def _note_rise(self, peer: PeerId) -> None:
        worker = self._parts.roster.workers.get(peer)
        if worker is None or not worker.device.on_probation:
            return
        if self.standings.state(peer) is not StandingState.PROBATION:
            worker.device.on_probation = False
            self._risen.append(worker)

    def take_kicks(self) -> list[Kick]:
        """Return what the book is to revoke now."""
        kicks, self._kicks = self._kicks, []
        return kicks

    def next_due(self) -> float | None:
        """Return when `tick` has something to do."""
        if self._kicks or self.standings.changed:
            return float("-inf")
        moments = (
            self._canaries.next_due(),
            self._referee.next_due(),
            self._telling.next_due(),
            self.standings.next_due(),
        )
        return min((m for m in moments if m is not None), default=None)

    # Reports and verdicts.

    def _reported(self, backbone: PeerId, audit: Audit, now: float) -> None:
        """Take a backbone's own checks of a worker that serves it."""
        deployment = Deployment(backbone, audit.manifest_hash)
        lease = self._parts.leases.find(audit.worker, deployment)
        if lease is None:
            return
        n = min(sum(count for _, count in audit.counts), _MAX_COUNT)
        if audit.outcome == CheckOutcome.PASSED:
            self.standings.vouched(audit.worker, n)
        elif self.incidents.covers(now, backbone):
            return
        elif audit.outcome == CheckOutcome.SILENT:
            self.standings.silent(audit.worker, n, now, backbone)
        elif audit.outcome == CheckOutcome.FAILED:
            self._accused(audit.worker, backbone, n, now)

    def _accused(self, peer: PeerId, backbone: PeerId, n: int, now: float) -> None:
        """Take an accusation: the worker gets no more of that backbone's work."""
        self.standings.accused(peer, backbone, n, now)
        worker = self._parts.roster.workers.get(peer)
        others: set[bytes] = set()  # models that it goes on with
        for lease in self._parts.leases.of_worker(peer):
            if lease.deployment.backbone != backbone:
                others.add(lease.deployment.manifest_hash)
            else:
                reason = "the backbone found a wrong result of this worker"
                self._kicks.append(Kick(peer=peer, lease=lease, reason=reason))
        self.proofs.keep(peer, others)
        for listing in self._parts.roster.listings.values():
            if worker is not None and listing.deployment.backbone == backbone:
                self._bar(worker, listing)

    def _ruled(self, verdict: Verdict, now: float) -> None:
        if verdict.outcome == CheckOutcome.PASSED:
            self.standings.passed(verdict.worker)
        elif verdict.outcome == CheckOutcome.FAILED:
            reason = StandingReason.WRONG_SERVING
            self._convict(verdict.worker, reason, verdict.voucher_hash, now)

    def _convict(
        self, peer: PeerId, reason: StandingReason, case: bytes, now: float
    ) -> None:
        self.standings.met(peer, self._views.domain(peer))
        if self.standings.convict(peer, reason, case, now):
            self.proofs.failed(peer)
            reason_told = self._words(peer)
            _LOG.warning("worker %s: %s", short_id(peer), reason_told)
            self._kicks.append(Kick(peer=peer, lease=None, reason=reason_told))

    def _words(self, peer: PeerId) -> str:
        is_refused = self.standings.of(peer).is_refused
        end = "this key is refused" if is_refused else "suspended"
        return f"a wrong result is confirmed: {end}"

    def _closed_s(self, worker: Worker, now: float) -> float:
        """Return for how long a worker is not taken for its domain's sake."""
        peer = worker.peer
        is_new = self.standings.state(peer) is StandingState.PROBATION
        if not is_new or self.standings.of(peer).passes:
            return 0.0
        return self.standings.closed_s(worker.device.domain, now)

    def _bar(self, worker: Worker, listing: Listing) -> None:
        """Have a device take nothing of a backbone that is done with it."""
        backbone = listing.deployment.backbone
        if self.standings.is_barred(worker.peer, backbone):
            worker.device.accept(listing.number, accepted=False)

    # Rounds.

    def _close(self, closed: CanaryRound, now: float) -> None:
        self._note_silence(closed, now)
        passes: dict[PeerId, int] = {}
        doubted: set[PeerId] = set()
        for expert in sorted(closed.experts()):
            ruling = judge(
                self._views.voices(closed.said_of(expert)),
                closed.backbones_of(expert),
                self.standings.may_convict,
            )
            for peer in (*ruling.passed, *ruling.vouched):
                passes[peer] = passes.get(peer, 0) + 1
            for peer in ruling.passed:
                self.proofs.passed(peer, closed.manifest_hash, expert, now)
            doubted.update(ruling.doubted)
            self._apply(closed, expert, ruling, now)
        for peer, n in passes.items():
            self.standings.passed(peer, n)
        for peer in doubted:
            self.standings.doubted(peer, now)

    def _apply(
        self, closed: CanaryRound, expert: ExpertId, ruling: Ruling, now: float
    ) -> None:
        for backbone in ruling.erred:
            _LOG.warning("backbone %s is wrong about %s", short_id(backbone), expert)
            window = self.incidents.backbone_erred(backbone, now)
            self.standings.pardon(window)
        for peer in ruling.wrong:
            self._convict(peer, StandingReason.WRONG_CANARY, closed.seed, now)
        for peer in ruling.wrong_here:
            said = closed.said_of(expert)[peer]
            for backbone, word in closed.backbones_of(expert).items():
                if word != said and not self.incidents.covers(now, backbone):
                    self._accused(peer, backbone, 1, now)
        if ruling.doubted:
            self._canaries.doubt(closed.manifest_hash, expert)
        else:
            self._canaries.settled(closed.manifest_hash, expert)

    def _note_silence(self, closed: CanaryRound, now: float) -> None:
        silent = list(closed.silent())
        asked = self._domains(closed.asked)
        quiet = asked - self._domains(closed.said)
        if len(quiet) >= _FEW_DOMAINS and 2 * len(quiet) >= len(asked):
            window = self.incidents.most_were_silent(closed.opened_at, now)
            self.standings.pardon(window)
            return
        if self.incidents.covers(closed.opened_at) or self.incidents.covers(now):
            return
        for peer in silent:
            experts = closed.asked[peer]
            self.standings.silent(peer, len(experts), now)
            for expert in experts:
                self.proofs.silent(peer, closed.manifest_hash, expert)

    def _domains(self, peers: Iterable[PeerId]) -> set[str]:
        return {self._views.domain(peer) for peer in peers}
