"""The ledger's rules of money, once more, as plain numbers: an oracle for its state.

Nothing of the ledger is used here. A key is one tab's vouchers; times are microseconds.
Every method does what the ledger should do, or says `False` where it should refuse.
"""

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Grant", "Key", "MoneyModel", "Payout", "Question", "Terms"]

EXTERNAL = "external"
_HOUR_US = 3_600_000_000
_TERM_US, _GRACE_US = 24 * _HOUR_US, 48 * _HOUR_US


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What holds for what closes."""

    fee_ppm: int = 0
    holdback_ppm: int = 0
    holdback_us: int = 0
    dispute_us: int = 0
    answer_us: int = 0


@dataclass(kw_only=True)
class Grant:
    """Money that a backbone reserved for a worker."""

    backbone: str
    worker: str
    ceiling: int
    expiry_us: int
    used: int = 0
    is_open: bool = True


@dataclass(kw_only=True)
class Key:
    """One tab's vouchers."""

    backbone: str
    worker: str
    grants: list[Grant] = field(default_factory=list)  # filed under
    amount: int = 0
    n_filed: int = 0
    state: str = "open"  # closed, disputed, released, reversed
    holdback: str = "none"  # held, released, forfeited
    fee: int = 0
    held: int = 0
    net: int = 0
    answer_us: int = 0
    release_due_us: int = 0
    holdback_due_us: int = 0
    parts: dict[str, tuple[int, int]] = field(default_factory=dict)  # amount, when

    @property
    def is_closed(self) -> bool:
        return self.state != "open"


@dataclass(kw_only=True)
class Question:
    """A dispute about one serving of a key."""

    key: Key
    serving: int
    by_worker: bool
    given_us: int  # for the answer, and again for the judgement
    due_us: int
    state: str = "open"  # answered, upheld, dismissed

    @property
    def is_pending(self) -> bool:
        return self.state in {"open", "answered"}


@dataclass(kw_only=True)
class Payout:
    """Money on its way."""

    worker: str
    period: int
    amount: int
    parts: list[tuple[int, str]]  # of keys, by identity
    state: str = "prepared"

    @property
    def is_dead(self) -> bool:
        return self.state in {"failed", "void"}


_STEPS = {
    "prepared": {"sending", "void"},
    "sending": {"sent", "confirmed", "failed", "unresolved"},
    "sent": {"confirmed", "failed"},
    "unresolved": {"confirmed", "failed"},
}


class MoneyModel:
    """All balances by (who, kind), and what they follow from."""

    def __init__(self, now_us: int, terms: Terms) -> None:
        self.now_us = now_us
        self.terms = terms
        self.balances: Counter[tuple[str, str]] = Counter()
        self.grants: list[Grant] = []
        self.keys: list[Key] = []
        self.held: list[Key] = []  # standby pay: parts of no voucher
        self.questions: list[Question] = []
        self.payouts: list[Payout] = []
        self.ends: list[int] = []  # of the closed periods
        self.convicted: set[tuple[bytes, int]] = set()

    def move(self, debit: tuple[str, str], credit: tuple[str, str], uc: int) -> None:
        self.balances[debit] -= uc
        self.balances[credit] += uc

    def fund(self, backbone: str, uc: int) -> None:
        self.move((EXTERNAL, EXTERNAL), (backbone, "client_deposit"), uc)

    # -- standby pay ----------------------------------------------------------

    def fill_pot(self, source: str, uc: int) -> bool:
        if source == "fee" and self.balances[EXTERNAL, "fee"] < uc:
            return False
        self.move((EXTERNAL, source), (EXTERNAL, "standby"), uc)
        return True

    def known(self) -> set[str]:
        """Return the workers that a voucher was ever filed for."""
        return {key.worker for key in self.keys if key.n_filed}

    def stand_by(self, pay: dict[str, int]) -> bool:
        """Pay all workers out of the pot, or nobody."""
        if sum(pay.values()) > self.balances[EXTERNAL, "standby"]:
            return False
        for worker, uc in pay.items():
            self.move((EXTERNAL, "standby"), (worker, "worker_available"), uc)
            part = Key(backbone="", worker=worker)
            part.parts["standby"] = uc, self.now_us
            self.held.append(part)
        return True

    # -- grants and filings ---------------------------------------------------

    def grant(self, backbone: str, worker: str, ceiling: int) -> Grant | None:
        self.release_expired()
        if self.balances[backbone, "client_deposit"] < ceiling:
            return None
        made = Grant(
            backbone=backbone,
            worker=worker,
            ceiling=ceiling,
            expiry_us=self.now_us + _TERM_US,
        )
        self.grants.append(made)
        self.move((backbone, "client_deposit"), (backbone, "client_reserved"), ceiling)
        return made

    def refusal(self, key: Key, grant: Grant, uc: int) -> str:
        """Return why a further voucher would be refused, or nothing."""
        if key.is_closed:
            return "closed"
        if not grant.is_open:
            return "grant"
        return "ceiling" if grant.used + uc > grant.ceiling else ""

    def file(self, key: Key, grant: Grant, uc: int, *, final: bool) -> None:
        if not key.n_filed:
            self.keys.append(key)
        key.n_filed += 1
        key.amount += uc
        key.grants.append(grant)
        grant.used += uc
        self.move((key.backbone, "client_reserved"), (key.worker, "worker_pending"), uc)
        if final:
            self._close(key)

    def release_expired(self) -> None:
        expired = [
            grant
            for grant in self.grants
            if grant.is_open and grant.expiry_us < self.now_us - _GRACE_US
        ]
        for grant in expired:
            grant.is_open = False
            backbone = grant.backbone
            self.move(
                (backbone, "client_reserved"),
                (backbone, "client_deposit"),
                grant.ceiling - grant.used,
            )
        pairs = {(grant.worker, grant.backbone) for grant in expired}
        for key in self.keys:
            is_covered = any(grant.is_open for grant in key.grants)
            of_pair = (key.worker, key.backbone) in pairs
            if of_pair and not is_covered and not key.is_closed:
                self._close(key)

    def _close(self, key: Key) -> None:
        terms = self.terms
        key.fee = key.amount * terms.fee_ppm // 10**6
        key.held = (key.amount - key.fee) * terms.holdback_ppm // 10**6
        key.net = key.amount - key.fee - key.held
        key.state = "closed"
        key.holdback = "held" if key.held else "none"
        key.answer_us = terms.answer_us
        key.release_due_us = self.now_us + terms.dispute_us
        key.holdback_due_us = self.now_us + terms.holdback_us
        pending = (key.worker, "worker_pending")
        self.move(pending, (EXTERNAL, "fee"), key.fee)
        self.move(pending, (key.worker, "worker_held"), key.held)

    # -- time -----------------------------------------------------------------

    def tend(self) -> None:
        self.release_expired()
        for question in self.questions:
            if question.is_pending and question.due_us <= self.now_us:
                self.decide(question, upheld=question.state == "open")
        for key in self.keys:
            if key.state == "closed" and key.release_due_us <= self.now_us:
                key.state = "released"
                self._make_available(key, "net", "worker_pending", key.net)
        for key in self.keys:
            is_due = key.holdback_due_us <= self.now_us and key.state != "disputed"
            if key.holdback == "held" and is_due:
                key.holdback = "released"
                self._make_available(key, "holdback", "worker_held", key.held)

    def _make_available(self, key: Key, part: str, kind: str, uc: int) -> None:
        self.move((key.worker, kind), (key.worker, "worker_available"), uc)
        key.parts[part] = uc, self.now_us

    # -- disputes -------------------------------------------------------------

    def may_dispute(self, key: Key, serving: int, *, by_worker: bool) -> bool:
        same = [
            question
            for question in self.questions
            if question.key is key
            and (question.serving, question.by_worker) == (serving, by_worker)
        ]
        in_window = key.state in {"closed", "disputed"}
        return in_window and self.now_us < key.release_due_us and not same

    def dispute(self, key: Key, serving: int, *, by_worker: bool) -> Question:
        key.state = "disputed"
        question = Question(
            key=key,
            serving=serving,
            by_worker=by_worker,
            given_us=key.answer_us,
            due_us=self.now_us + key.answer_us,
        )
        self.questions.append(question)
        return question

    def answer(self, question: Question) -> bool:
        if question.state != "open" or self.now_us >= question.due_us:
            return False
        if question.by_worker:
            self.decide(question, upheld=False)
        else:
            question.state = "answered"
            question.due_us = self.now_us + question.given_us
        return True

    def decide(self, question: Question, *, upheld: bool) -> None:
        key = question.key
        others = [
            other
            for other in self.questions
            if other.key is key and other.is_pending and other is not question
        ]
        question.state = "upheld" if upheld else "dismissed"
        if upheld and not question.by_worker:
            key.state = "reversed"
            self.move(
                (key.worker, "worker_pending"),
                (key.backbone, "client_deposit"),
                key.net,
            )
            self._forfeit(key)
            for other in others:
                other.state = "dismissed"
        elif not others:
            key.state = "closed"

    def convict(self, worker: str, number: tuple[bytes, int]) -> None:
        """Take all that is held back of a worker, once for a tab's voucher number."""
        if number in self.convicted:
            return
        self.convicted.add(number)
        for key in self.keys:
            if key.worker == worker:
                self._forfeit(key)

    def fail_audit(self, key: Key) -> bool:
        """Convict a key's worker by an audit; say whether the voucher went back."""
        if not key.is_closed:
            self._close(key)
        is_reversed = key.state in {"closed", "disputed"}
        if is_reversed:
            key.state = "reversed"
            pending = (key.worker, "worker_pending")
            self.move(pending, (key.backbone, "client_deposit"), key.net)
            for question in self.questions:
                if question.key is key and question.is_pending:
                    question.state = "dismissed"
        for other in self.keys:
            if other.worker == key.worker:
                self._forfeit(other)
        return is_reversed

    def _forfeit(self, key: Key) -> None:
        if key.holdback == "held":
            key.holdback = "forfeited"
            self.move((key.worker, "worker_held"), (EXTERNAL, "penalty"), key.held)

    # -- payouts --------------------------------------------------------------

    def payable(self, worker: str, end_us: int, unit: int) -> int:
        """Return what of a worker can be paid for the period that ends then."""
        period = self.ends.index(end_us)
        for payout in self.payouts:
            if (payout.worker, payout.period) == (
                worker,
                period,
            ) and not payout.is_dead:
                return 0
        later = sum(
            uc
            for key, part in self._free(worker)
            for uc, when_us in [key.parts[part]]
            if when_us >= end_us
        )
        there = self.balances[worker, "worker_available"] - later
        return max(0, there) // unit * unit

    def prepare(self, worker: str, end_us: int, amount: int) -> Payout:
        taken = [
            (id(key), part)
            for key, part in self._free(worker)
            if key.parts[part][1] < end_us
        ]
        made = Payout(
            worker=worker,
            period=self.ends.index(end_us),
            amount=amount,
            parts=taken,
        )
        self.payouts.append(made)
        self.move((worker, "worker_available"), (worker, "payout_clearing"), amount)
        return made

    def _free(self, worker: str) -> list[tuple[Key, str]]:
        """Return the released parts that no living payout has."""
        taken = {
            part
            for payout in self.payouts
            if not payout.is_dead
            for part in payout.parts
        }
        return [
            (key, part)
            for key in (*self.keys, *self.held)
            if key.worker == worker
            for part in key.parts
            if (id(key), part) not in taken
        ]

    def may_step(self, payout: Payout, to: str) -> bool:
        return to in _STEPS.get(payout.state, ())

    def step(self, payout: Payout, to: str) -> None:
        payout.state = to
        clearing = (payout.worker, "payout_clearing")
        if to == "confirmed":
            self.move(clearing, (EXTERNAL, EXTERNAL), payout.amount)
        elif to in {"failed", "void"}:
            self.move(clearing, (payout.worker, "worker_available"), payout.amount)
