"""The running account of this worker process with one backbone; no I/O.

    DISPATCH -> admit -> Reservation -> computed | failed
    ACCEPT   -> accepted leaves -> propose -> VOUCHER -> COUNTERSIGN -> Settled

Rules:
- Nothing is served without a grant that the ledger signed for exactly this worker,
  backbone, model and price table; never beyond its ceiling or after its expiry, and
  never with more servings unsigned than the grant's float.
- A serving number is used once, whatever became of it.
- A leaf is built when the answer is ready and claimed only after its ACCEPT.
- A voucher is proposed after a second, 256 leaves, or half of the float.
- A closed tab takes no dispatch; what is open in it is still accepted and signed.
- An epoch that is over goes, with its prices and grants, once nothing of it is open.

Grants and price tables come verified (`mobile_worker.servings.grants`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger.errors import AmountRefused
from ledger.leaf import LeafPacker
from ledger.ranges import contains, count
from ledger.tally import TabTerms
from mobile_worker.messages.serving import Dispatch
from mobile_worker.servings.allowance import Allowance
from mobile_worker.servings.chain import Chain, Proposal, Settled
from mobile_worker.servings.exposure import Exposure
from mobile_worker.servings.numbers import NumberSet

__all__ = ["CallHashes", "Refusal", "Reservation", "Tab"]

_VOUCHER_LEAVES = 256
_VOUCHER_S = 1.0
_OVERDUE_S = 2.0  # after its answer, an unaccepted serving counts as overdue
_MAX_REFUSALS = 3
_MAX_GRANTS = 64
_FORGET_S = 600.0  # and then its leaf is dropped; an outage of the relay is shorter


class Refusal(StrEnum):
    """Why a dispatch is not served; the texts are for the log."""

    CLOSED = "the tab is closed"
    REUSED = "a serving number was used before"
    NO_GRANT = "no grant for this price epoch"
    CEILING = "the grant's ceiling is reached"
    FLOAT = "the float of unsigned servings is reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A dispatch that was taken: call i is serving `dispatch.first_serving + i`."""

    dispatch: Dispatch
    chain: Chain
    allowance: Allowance
    amounts_uc: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CallHashes:
    """Hashes of one call's rows and results, 16 bytes each."""

    x: bytes
    out: bytes


@dataclass(slots=True, kw_only=True)
class _Pending:
    leaf: bytes
    amount_uc: int
    chain: Chain
    allowance: Allowance
    overdue: bool = False


class Tab:
    """One tab; see the module for the rules."""

    def __init__(self, terms: TabTerms, exposure: Exposure) -> None:
        """Open a tab; `exposure` is shared by all tabs with the same backbone."""
        self.terms = terms
        self.is_closed = False
        self.n_accepted = 0
        self._exposure = exposure
        self._numbers = NumberSet()
        self._allowances: list[Allowance] = []
        self._chains: dict[int, Chain] = {}
        self._signed_up_to: dict[int, int] = {}  # of epochs that are gone
        self._pending: dict[int, _Pending] = {}
        self._answered: deque[tuple[float, int]] = deque()
        self._old: deque[tuple[float, int]] = deque()

    @property
    def is_used(self) -> bool:
        """Whether any serving number has been used."""
        return self._numbers.n_ranges > 0

    @property
    def is_settled(self) -> bool:
        """Whether every accepted leaf is countersigned and nothing waits."""
        return all(
            chain.is_settled
            and (chain.is_closed or not chain.closing or not chain.used)
            for chain in self._chains.values()
        )

    @property
    def n_open(self) -> int:
        """Servings taken that may still be accepted."""
        return sum(chain.n_open for chain in self._chains.values())

    def allow(self, allowance: Allowance) -> None:
        """Serve under a further grant; an older price epoch is closed by a newer."""
        if any(known is allowance for known in self._allowances):
            return
        epoch = allowance.prices.epoch
        roomy = [known for known in self._allowances if known.room_uc > 0]
        self._allowances = [*roomy, allowance][-_MAX_GRANTS:]
        if epoch not in self._chains:
            self._chains[epoch] = Chain(self.terms, allowance.prices)
        newest = max(self._chains)
        for number, chain in self._chains.items():
            chain.closing = chain.closing or number < newest

    def admit(self, dispatch: Dispatch, wall_us: int) -> Reservation | Refusal:
        """Take a dispatch, its numbers, amounts and risk, or say why not."""
        if self.is_closed:
            return Refusal.CLOSED
        n = len(dispatch.calls)
        chosen = self._choose(dispatch, wall_us)
        if isinstance(chosen, Refusal):
            return chosen
        allowance, amounts_uc = chosen
        if self._exposure.at_risk + n > allowance.grant.float_leaves:
            return Refusal.FLOAT
        if not self._numbers.take(dispatch.first_serving, n):
            return Refusal.REUSED
        chain = self._chains[dispatch.price_epoch]
        chain.n_open += n
        self._exposure.live += n
        allowance.used_uc += sum(amounts_uc)
        return Reservation(
            dispatch=dispatch,
            chain=chain,
            allowance=allowance,
            amounts_uc=amounts_uc,
        )

    def computed(
        self, taken: Reservation, hashes: Sequence[CallHashes], now: float
    ) -> None:
        """Build the leaves of an answer that is about to be sent."""
        dispatch = taken.dispatch
        packer = LeafPacker(
            tab=self.terms.tab,
            request=dispatch.request,
            layer=dispatch.layer,
            price_epoch=dispatch.price_epoch,
            nonce=dispatch.nonce,
        )
        for at, (call, amount_uc) in enumerate(
            zip(dispatch.calls, taken.amounts_uc, strict=True)
        ):
            serving = dispatch.first_serving + at
            leaf = packer.pack(
                serving,
                (call.index, len(call.rows), amount_uc),
                hashes[at].x,
                hashes[at].out,
            )
            self._pending[serving] = _Pending(
                leaf=leaf,
                amount_uc=amount_uc,
                chain=taken.chain,
                allowance=taken.allowance,
            )
            self._answered.append((now, serving))

    def failed(self, taken: Reservation) -> None:
        """Give back risk and amounts of a dispatch that got no results."""
        n = len(taken.amounts_uc)
        taken.chain.n_open -= n
        taken.allowance.used_uc -= sum(taken.amounts_uc)
        self._exposure.live -= n

    def accept(self, ranges: Sequence[tuple[int, int]], now: float) -> int:
        """Take ranges that ascend; return how many servings are newly accepted."""
        n_before = self.n_accepted
        numbers: Iterable[int]
        if count(ranges) < len(self._pending):
            numbers = (n for first, last in ranges for n in range(first, last + 1))
        else:
            numbers = [n for n in self._pending if contains(ranges, n)]
        for number in numbers:
            pending = self._pending.pop(number, None)
            if pending is not None:
                self._accept_one(pending, now)
        return self.n_accepted - n_before

    def tick(self, now: float) -> None:
        """Let answered servings that nobody accepts become overdue, then forgotten."""
        self._exposure.tick(now)
        self._drop_epochs()
        while self._answered and self._answered[0][0] <= now - _OVERDUE_S:
            entry = self._answered.popleft()
            pending = self._pending.get(entry[1])
            if pending is not None:
                pending.overdue = True
                self._exposure.unclaimed(1)
                self._old.append(entry)
        while self._old and self._old[0][0] <= now - _FORGET_S:
            pending = self._pending.pop(self._old.popleft()[1], None)
            if pending is not None:
                pending.chain.n_open -= 1
                pending.allowance.used_uc -= pending.amount_uc

    def propose(
        self, now: float, wall_us: int, sign: Callable[[bytes], bytes]
    ) -> list[Proposal]:
        """Return the vouchers to send now: new ones, and those without an answer."""
        proposals = []
        for chain in self._chains.values():
            proposal = chain.again(now)
            if proposal is None and self._is_due(chain, now):
                proposal = chain.propose(wall_us, sign, now)
            if proposal is not None:
                proposals.append(proposal)
            self._exposure.unclaimed(chain.n_dropped)
            chain.n_dropped = 0
        return proposals

    def countersigned(self, name: bytes, signature: bytes) -> Settled | None:
        """Take the backbone's signature of the proposal with this hash.

        Raises:
            SignatureRefused: it does not verify; the proposal stays open.
        """
        for chain in self._chains.values():
            if chain.names(name):
                settled = chain.countersigned(name, signature)
                if settled is not None:
                    n = settled.n_leaves
                    self._exposure.live -= n
                    self._exposure.signed += n
                    self.is_closed = self.is_closed or chain.is_ragged
                return settled
        return None

    def refused(self, name: bytes, now: float) -> bool:
        """Note that the backbone refuses to sign; say whether it was about this tab.

        A tab whose voucher is refused again and again is given up: the two sides
        disagree about its leaves, and no more is risked on it.
        """
        concerned = [chain for chain in self._chains.values() if chain.names(name)]
        if any(chain.refused(now) >= _MAX_REFUSALS for chain in concerned):
            self.abandon()
        return bool(concerned)

    def signed_up_to(self, price_epoch: int) -> int:
        """Return the newest number signed in an epoch, 0 before the first."""
        chain = self._chains.get(price_epoch)
        return chain.signed_up_to if chain else self._signed_up_to.get(price_epoch, 0)

    def close(self) -> None:
        """Take no dispatch any more and end every chain with a final voucher."""
        self.is_closed = True
        for chain in self._chains.values():
            chain.closing = True

    def write_off(self) -> None:
        """Stop waiting for servings that were never accepted."""
        for pending in self._pending.values():
            pending.chain.n_open -= 1
            self._exposure.unclaimed(not pending.overdue)
        self._pending.clear()

    def abandon(self) -> None:
        """Close at once, and give up what the backbone never signed."""
        self.close()
        self.write_off()
        for chain in self._chains.values():
            self._exposure.unclaimed(chain.abandon())

    def _drop_epochs(self) -> None:
        """Let go of epochs of which nothing is open, but for the newest."""
        newest = max(self._chains, default=0)
        for epoch, chain in list(self._chains.items()):
            if epoch == newest or not chain.closing or chain.n_open:
                continue
            if chain.is_settled and (chain.is_closed or not chain.used):
                self._signed_up_to[epoch] = chain.signed_up_to
                del self._chains[epoch]
                self._allowances = [
                    known for known in self._allowances if known.prices.epoch != epoch
                ]

    def _choose(
        self, dispatch: Dispatch, wall_us: int
    ) -> tuple[Allowance, tuple[int, ...]] | Refusal:
        """Return the oldest valid grant of the epoch with room, and the amounts."""
        refusal = Refusal.NO_GRANT
        for allowance in self._allowances:
            prices = allowance.prices
            if prices.epoch != dispatch.price_epoch or not allowance.is_valid(wall_us):
                continue
            if self._chains[prices.epoch].is_closed:
                continue
            refusal = Refusal.CEILING
            try:
                amounts_uc = tuple(
                    prices.amount(dispatch.layer, call.index, len(call.rows))
                    for call in dispatch.calls
                )
            except AmountRefused:
                continue
            if sum(amounts_uc) <= allowance.room_uc:
                return allowance, amounts_uc
        return refusal

    def _accept_one(self, pending: _Pending, now: float) -> None:
        if pending.overdue:
            self._exposure.claimed()
        pending.chain.n_open -= 1
        pending.chain.accepted(pending.allowance, pending.leaf, now)
        self.n_accepted += 1

    def _is_due(self, chain: Chain, now: float) -> bool:
        if chain.closing or chain.n_fresh >= _VOUCHER_LEAVES:
            return True
        if chain.fresh_for(now) >= _VOUCHER_S:
            return True
        # Grants are used oldest first: the next may name a larger float, but the one in
        # use is what the backbone stops at, and then only a second brings a voucher.
        roomy = [known for known in self._allowances if known.room_uc > 0]
        in_use = roomy or self._allowances
        float_leaves = min(known.grant.float_leaves for known in in_use)
        return chain.n_fresh > 0 and self._exposure.at_risk * 2 >= float_leaves
