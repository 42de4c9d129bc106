"""The vouchers of one tab in one price epoch, as the worker makes them; no I/O.

    accepted leaf -> fresh -> in one proposal at a time -> countersigned

A proposal is a voucher signed by this worker with the leaves that it adds. It is sent
again, the same bytes, until it is answered: numbers never name two vouchers. A proposal
adds leaves taken under one grant only, the one it names. After the final voucher the
chain is closed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.errors import OutOfWindow
from ledger.leaf import LEAF_BYTES, LEAF_STRUCT
from ledger.prices import PriceTable
from ledger.tally import TabTerms, Tally
from ledger.voucher import Voucher, sign_voucher, verify_voucher, voucher_hash
from mobile_worker.servings.allowance import Allowance, GrantUse

__all__ = ["MAX_LEAVES", "Chain", "Proposal", "Settled", "amount_of"]

MAX_LEAVES = 512  # added by one voucher
RESEND_S = 2.0  # the first pause; each further one is twice as long
MAX_RESEND_S = 30.0
REFUSED_PAUSE_S = 10.0
_UNNAMED = bytes(32)  # of a refusal: the voucher was not even read
_MAX_RANGES = 3000  # beyond it the tab is closed: a voucher holds 4096 at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A voucher signed by the worker, waiting for the backbone's signature."""

    voucher: Voucher
    raw: bytes
    name: bytes  # its hash
    worker_signature: bytes
    leaves: bytes  # the leaves it adds, 79 bytes each
    use: GrantUse | None  # of the grant that they are claimed under

    @property
    def n_leaves(self) -> int:
        """How many leaves it adds."""
        return len(self.leaves) // LEAF_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A voucher with both signatures and the leaves it adds: to be filed."""

    raw: bytes
    worker_signature: bytes
    backbone_signature: bytes
    leaves: bytes

    @property
    def n_leaves(self) -> int:
        """How many leaves it adds."""
        return len(self.leaves) // LEAF_BYTES

    @property
    def amount_uc(self) -> int:
        """Micro-credits of the leaves it adds."""
        return amount_of(self.leaves)


def amount_of(leaves: bytes) -> int:
    """Return the micro-credits of a block of packed leaves."""
    return sum(fields[-1] for fields in LEAF_STRUCT.iter_unpack(leaves))


class Chain:
    """Leaves and vouchers of one (tab, price epoch)."""

    def __init__(self, terms: TabTerms, prices: PriceTable) -> None:
        """Start without leaves."""
        self.n_open = 0  # servings taken that may still be accepted
        self.n_dropped = 0  # leaves accepted too late to be claimed
        self.closing = False
        self._tally = Tally(terms, prices)
        self._fresh: list[tuple[Allowance, bytes]] = []
        self._fresh_since = 0.0
        self._last: Voucher | None = None
        self._proposal: Proposal | None = None
        self._sent_at = 0.0
        self._pause_s = RESEND_S
        self._abandoned = False
        self._n_refused = 0

    @property
    def prices(self) -> PriceTable:
        """The price table of the epoch."""
        return self._tally.prices

    @property
    def n_fresh(self) -> int:
        """Accepted leaves that no voucher holds yet."""
        return len(self._fresh)

    @property
    def used(self) -> bool:
        """Whether a voucher holds anything, so that a final one is due at the end."""
        return self._tally.leaves > 0

    @property
    def is_closed(self) -> bool:
        """Whether nothing more will be signed here."""
        return self._abandoned or (self._last is not None and self._last.final)

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits for a signature."""
        return not self._fresh and self._proposal is None

    @property
    def is_ragged(self) -> bool:
        """Whether there are so many holes that the tab should be closed."""
        return len(self._tally.ranges) > _MAX_RANGES

    @property
    def signed_up_to(self) -> int:
        """The newest number that this worker signed here, 0 before the first."""
        newest = self._proposal.voucher if self._proposal else self._last
        return newest.number if newest else 0

    def accepted(self, allowance: Allowance, leaf: bytes, now: float) -> None:
        """Take a leaf that the backbone has accepted."""
        if not self._fresh:
            self._fresh_since = now
        self._fresh.append((allowance, leaf))

    def fresh_for(self, now: float) -> float:
        """Return for how many seconds the oldest fresh leaf has waited."""
        return now - self._fresh_since if self._fresh else 0.0

    def propose(
        self, wall_us: int, sign: Callable[[bytes], bytes], now: float
    ) -> Proposal | None:
        """Return the next voucher to send, or None if there is nothing to claim."""
        if self._proposal is not None or self.is_closed:
            return None
        allowance, block = self._next_block()
        final = self.closing and not self._fresh and self.n_open == 0
        if not block and not (final and self._tally.leaves):
            return None
        previous_grant = self._last.grant_hash if self._last else b""
        voucher = self._tally.draft(
            self._last,
            grant_hash=allowance.name if allowance else previous_grant,
            issued_us=max(wall_us, self._last.issued_us if self._last else 0),
            final=final,
        )
        if allowance is not None:
            allowance.claimed_uc += amount_of(block)
        raw = voucher.pack()
        self._sent_at, self._pause_s = now, RESEND_S
        self._proposal = Proposal(
            voucher=voucher,
            raw=raw,
            name=voucher_hash(raw),
            worker_signature=sign_voucher(raw, sign),
            leaves=block,
            use=allowance.use if allowance is not None else None,
        )
        return self._proposal

    def again(self, now: float) -> Proposal | None:
        """Return the proposal that has waited too long for its answer."""
        if self._proposal is None or now - self._sent_at < self._pause_s:
            return None
        self._sent_at = now
        self._pause_s = min(2 * self._pause_s, MAX_RESEND_S)
        return self._proposal

    def countersigned(self, name: bytes, signature: bytes) -> Settled | None:
        """Take the backbone's signature; None if it answers no open proposal.

        Raises:
            SignatureRefused: it does not verify; the proposal stays open.
        """
        proposal = self._proposal
        if proposal is None or proposal.name != name:
            return None
        verify_voucher(proposal.raw, signature, proposal.voucher.backbone)
        self._proposal = None
        self._n_refused = 0
        self._last = proposal.voucher
        return Settled(
            raw=proposal.raw,
            worker_signature=proposal.worker_signature,
            backbone_signature=signature,
            leaves=proposal.leaves,
        )

    def refused(self, now: float) -> int:
        """Note that the backbone refuses the proposal; return how often it has."""
        self._n_refused += 1
        self._sent_at = now + REFUSED_PAUSE_S
        return self._n_refused

    def abandon(self) -> int:
        """Give up what is not countersigned; return how many leaves that was."""
        n = len(self._fresh) + (self._proposal.n_leaves if self._proposal else 0)
        self._fresh.clear()
        self._proposal = None
        self._abandoned = True
        return n

    def names(self, name: bytes) -> bool:
        """Say whether the open proposal has this hash; zeros name any open one."""
        proposal = self._proposal
        return proposal is not None and name in {proposal.name, _UNNAMED}

    def _next_block(self) -> tuple[Allowance | None, bytes]:
        """Move the oldest fresh leaves of one grant into the tally."""
        if not self._fresh:
            return None, b""
        allowance = self._fresh[0][0]
        taken: list[bytes] = []
        for owner, leaf in self._fresh[:MAX_LEAVES]:
            if owner is not allowance:
                break
            taken.append(leaf)
        del self._fresh[: len(taken)]
        block = b"".join(taken)
        try:
            self._tally.add(block)
        except OutOfWindow:
            block = b"".join(leaf for leaf in taken if self._fits(leaf))
            self.n_dropped += len(taken) - len(block) // LEAF_BYTES
        return allowance, block

    def _fits(self, leaf: bytes) -> bool:
        try:
            self._tally.add(leaf)
        except OutOfWindow:
            return False
        return True
