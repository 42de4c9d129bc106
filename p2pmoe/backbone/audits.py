"""Which answers are compared with another's, and what is paid before that.

Two ways, both by equality to the bit, since expert arithmetic is exact:

- a **spot check**: the decode thread computes a sample of an answer itself; the answer
  is paid after that, and one wrong result ends all business with its worker (fault
  B34);
- a **duplicate**: two workers were asked for one call (a hedge or a probe), and both
  answered. Equal bytes are a passed check of whoever agrees with a worker that has
  passed many; two strangers who agree prove nothing. Bytes that differ are a `Dispute`:
  one of the two is wrong, and somebody else must say which.

State only: who is banned is the dispatcher's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from mobile_worker.messages import CheckOutcome
from p2pmoe.backbone.attempts import Attempt
from p2pmoe.backbone.audit_reports import AuditReports
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.exchange import CheckTicket, LayerWork
from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.outputs import CallResult
from p2pmoe.backbone.plan import ExpertRows
from p2pmoe.backbone.progress import Taken
from p2pmoe.backbone.servings import Accounts, Served
from p2pmoe.backbone.spot_checks import SpotChecks
from p2pmoe.backbone.trace import StepTrace
from relay.keys import PeerId

__all__ = ["Audits", "Dispute"]

_VERDICTS = {True: "passed", False: "failed", None: "skipped"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dispute:
    """Two answers for one call that differ; the later one's request names it."""

    number: int
    work: LayerWork
    call: ExpertRows
    sides: tuple[Taken, Taken]  # the earlier, the later


class Audits:
    """Answers that wait for a verdict, and what comparing them has shown."""

    def __init__(
        self,
        *,
        accounts: Accounts,
        fleet: Fleet,
        counters: BackboneCounters,
        checks: SpotChecks,
        random: Random,
        reports: AuditReports,
    ) -> None:
        """Begin with nothing to check; `reports` hear of every check."""
        self._accounts = accounts
        self._fleet = fleet
        self._counters = counters
        self._checks = checks
        self._random = random
        self._reports = reports
        self._unchecked: dict[int, tuple[StepTrace, Served]] = {}
        self._disputes: dict[int, tuple[Dispute, Served | None]] = {}

    def settle(
        self,
        attempt: Attempt,
        results: Sequence[CallResult],
        fresh: Sequence[CallResult],
    ) -> CheckTicket | None:
        """Pay an answer; or return what is to be checked of it first.

        `fresh` are those of its `results` that were taken; only they can be checked.
        """
        served = attempt.served(results)
        worker = self._fleet.workers[attempt.peer]
        worker.n_calls += len(results)
        self._counters.duplicate_servings += len(results) - len(fresh)
        if fresh and self._random.random() < self._checks.share(worker.passes):
            self._unchecked[attempt.request] = (attempt.progress.work.trace, served)
            calls = tuple(result.call for result in fresh)
            return attempt.ticket(calls, self._random.choice(calls))
        self._accounts.accept(served)
        return None

    def checked(self, ticket: CheckTicket, *, passed: bool | None) -> None:
        """Take the decode thread's verdict on an answer that it recomputed.

        None is no verdict: the file has lost that expert. Such an answer is paid, and
        its worker is no better known by it.
        """
        self._counters.spot_checks[_VERDICTS[passed]] += 1
        _, served = self._unchecked.pop(ticket.number, (None, None))
        self._fleet.workers[ticket.peer].passes += passed is True
        if served is None:
            return
        if passed is not None:
            outcome = CheckOutcome.PASSED if passed else CheckOutcome.FAILED
            sample = (ticket.sample.expert,)
            self._reports.note(ticket.peer, outcome, served.layer, sample)
        if passed is False:
            self._accounts.abandon(served.slot)
        else:
            self._accounts.accept(served)

    def stopped(self, step: StepTrace) -> None:
        """Pay the answers of a step on which nobody will report any more."""
        for number, (owner, served) in list(self._unchecked.items()):
            if owner is step:
                del self._unchecked[number]
                self._accounts.accept(served)

    def compare(
        self,
        attempt: Attempt,
        results: Sequence[CallResult],
        taken: Mapping[int, Taken],
    ) -> Dispute | None:
        """Compare an answer with those that were taken for its calls before it.

        Returns the first difference; if there is none, whoever agrees with a worker
        that is well known has passed a check.
        """
        rivals: set[PeerId] = set()
        for serving, result in enumerate(results, start=attempt.slot.first):
            before = taken.get(result.call.expert)
            if before is None or before.peer == attempt.peer:
                continue
            if before.coded != result.coded:
                mine = Taken(slot=attempt.slot, serving=serving, coded=result.coded)
                return Dispute(
                    number=attempt.request,
                    work=attempt.progress.work,
                    call=result.call,
                    sides=(before, mine),
                )
            rivals.add(before.peer)
        if not rivals:
            return None
        self._counters.hedge_audits["agreed"] += 1
        mine_known = self._fleet.workers[attempt.peer]
        for peer in rivals:
            rival = self._fleet.workers[peer]
            vouched = self._checks.vouches(rival.passes)
            rival.passes += self._checks.vouches(mine_known.passes)
            mine_known.passes += vouched
        return None

    def open(self, dispute: Dispute, held: Served | None) -> None:
        """Note a dispute; `held` is what is paid if the later answer is right."""
        self._disputes[dispute.number] = (dispute, held)

    def ruled(self, number: int, right: bytes | None, now: float) -> list[PeerId]:
        """Close a dispute by the right coded results; return who gave others.

        None is no verdict: one of the two is wrong, and nobody can say which. Both are
        demoted and begin anew as strangers, unless only one was well known: no stranger
        makes it one. The later answer is not paid.
        """
        dispute, held = self._disputes.pop(number)
        is_right = [side.coded == right for side in dispute.sides]
        if held is not None and is_right[1]:
            self._counters.duplicate_servings += len(held.results)
            self._accounts.accept(held)
        elif held is not None:
            self._accounts.abandon(held.slot)
        self._counters.hedge_audits["undecided" if right is None else "differed"] += 1
        peers = [side.peer for side in dispute.sides]
        if right is None:
            self._undecided(peers, now)
            return []
        wrong = [p for p, ok in zip(peers, is_right, strict=True) if not ok]
        layer, expert = dispute.work.plan.layer, dispute.call.expert
        for peer in wrong:
            self._reports.note(peer, CheckOutcome.FAILED, layer, (expert,))
        return wrong

    def _undecided(self, peers: Sequence[PeerId], now: float) -> None:
        workers = [self._fleet.workers[peer] for peer in peers]
        strangers = [w for w in workers if not self._checks.vouches(w.passes)]
        for worker in strangers or workers:
            worker.passes = 0
        for peer in peers:
            self._fleet.failed(peer, now, weight=2)
