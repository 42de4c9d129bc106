"""The waiting side of the accounts: make durable, send, file, repeat.

Rules:
- A voucher and the leaves it adds are synced to the spool before the voucher is sent;
  the same voucher with both signatures is synced before it is filed. What is filed and
  acknowledged goes into this worker's own copy, and then leaves the spool.
- What was claimed under a grant, and the newest number signed in the tab, are synced
  with the voucher that claims it.
- A final that a backbone drafted for a tab of an earlier run of ours is signed if no
  other bytes of its number were; both signatures are synced, then filed and shown.
- After a restart, doubly signed vouchers are filed; those that only this worker had
  signed are offered to their backbone once more when it says HELLO. Nothing is kept
  for more than 90 days.
- The spool is used by one thread at a time. If it is full or its disk fails, no voucher
  is sent, so that the float ends serving; nothing that was synced is lost.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import trio

from ledger.claims import FiledStatus
from ledger.errors import LedgerError, RemoteError, SignatureRefused
from ledger.spool import Spool
from ledger.voucher import SignedVoucher, Voucher, verify_voucher, voucher_hash
from mobile_worker.clock import Clock
from mobile_worker.errors import LocalError
from mobile_worker.messages import accounts as wire
from mobile_worker.messages.codec import Message
from mobile_worker.servings.accounts import Accounts
from mobile_worker.servings.chain import Proposal, Settled
from mobile_worker.servings.filing import (
    FilingQueue,
    SpoolKind,
    latest_of,
    pack_proposal,
    pack_settled,
    unpack_settled,
)
from mobile_worker.servings.finals import TabMark, mark_key
from mobile_worker.servings.leftovers import sort_leftovers
from mobile_worker.servings.own_copy import OwnCopy, OwnReceipt
from relay.keys import PeerId, short_id

__all__ = ["Earnings", "Settling"]

logger = logging.getLogger("p2pmoe.settling")

_TICK_S = 0.1
_IDLE_TICK_S = 1.0  # with nothing served, signed or filed that waits: for the processor
_MAX_REASONS = 16


@dataclass(slots=True)
class Earnings:
    """What became of filed vouchers since the start."""

    filed: int = 0
    rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict)  # of rejections, a few

    def reject(self, reason: str) -> None:
        """Count a rejection; beyond some reasons the others count as one."""
        self.rejected += 1
        is_known = reason in self.reasons or len(self.reasons) < _MAX_REASONS
        name = reason if is_known else "other reasons"
        self.reasons[name] = self.reasons.get(name, 0) + 1


@dataclass(slots=True, kw_only=True)
class _Open:
    """A voucher in the spool that the backbone has not signed."""

    entry: int
    peer: PeerId
    proposal: Settled  # with zeros for the backbone's signature
    left_over: bool = field(default=False)  # of an earlier run of this worker


class Settling:
    """Moves vouchers between accounts, spool, backbones and ledger."""

    def __init__(
        self,
        accounts: Accounts,
        spool: Spool,
        *,
        send: Callable[[PeerId, Message], None],
        ledger: PeerId,
        clock: Clock,
        copy: OwnCopy | None = None,
    ) -> None:
        """Take over what an earlier run left in the spool.

        `copy` keeps what was filed and answered, for this worker's own books.
        """
        self._copy = copy
        self.earnings = Earnings()
        self._accounts = accounts
        self._spool = spool
        self._send = send
        self.ledger = ledger
        self._clock = clock
        self._filing = FilingQueue()
        self._open: dict[bytes, _Open] = {}  # by hash of the voucher
        self._latest: dict[tuple[SpoolKind, bytes], int] = {}  # grant, tab -> entry
        self._marks: dict[bytes, TabMark] = {}  # by tab and epoch
        self._opened: dict[bytes, TabMark] = {}  # by tab
        self._signed: list[tuple[Settled, int | None]] = []  # not in the spool yet
        self._wake = trio.Event()
        self._moved = trio.Event()
        self._disk = trio.Lock()
        self._take_over()

    @property
    def n_waiting(self) -> int:
        """Vouchers with both signatures that the ledger has not acknowledged."""
        return len(self._signed) + len(self._filing)

    @property
    def is_settled(self) -> bool:
        """Whether everything accepted is signed and everything signed is filed."""
        return self._accounts.is_settled and not self.n_waiting

    async def settled(self) -> None:
        """Wait until `is_settled`; `run` must be running."""
        while not self.is_settled:
            await self._moved.wait()

    def wake(self) -> None:
        """Look at once whether a voucher is due."""
        self._wake.set()

    def greeted(self, peer: PeerId) -> None:
        """Offer a backbone again what it left unsigned in an earlier run of ours."""
        for left in self._open.values():
            if left.left_over and left.peer == peer:
                self._offer(peer, left.proposal)

    def countersigned(self, peer: PeerId, answer: wire.Countersign) -> None:
        """Take the answer to a voucher."""
        try:
            settled = self._accounts.countersigned(
                peer, answer, self._clock.monotonic()
            ) or self._left_over(peer, answer)
        except SignatureRefused as error:
            logger.warning("backbone %s: %s", short_id(peer), error)
            return
        if answer.error:
            logger.warning("backbone %s signs not: %s", short_id(peer), answer.error)
        if settled is not None:
            known = self._open.pop(answer.voucher_hash, None)
            self._signed.append((settled, known.entry if known else None))
            self.wake()

    async def offered(self, peer: PeerId, offer: wire.File) -> None:
        """Take a final that a backbone drafted: sign, keep, file and show it.

        Raises:
            SpoolFull, StoreUnavailable: the spool; nothing was signed away.
        """
        try:
            voucher = Voucher.parse(offer.voucher)
            known = self._marks.get(mark_key(voucher), self._opened.get(voucher.tab))
            signed = self._accounts.sign_final(peer, offer, known)
        except RemoteError as error:
            logger.warning("a final of backbone %s: %s", short_id(peer), error)
            return
        mark = TabMark.of(voucher, voucher_hash(offer.voucher))
        if known != mark:
            async with self._disk:
                records = [
                    (SpoolKind.SETTLED, pack_settled(signed)),
                    (SpoolKind.TAB_MARK, mark.pack()),
                ]
                entries = await trio.to_thread.run_sync(self._write, records)
                self._filing.add(entries[0], signed)
                self._marks[mark.key] = mark
                await self._replace([(SpoolKind.TAB_MARK, mark.key)], entries[1:])
                stale = self._forget_proposals(voucher)
                await trio.to_thread.run_sync(self._spool.release, stale)
            self.wake()
        self._offer(peer, replace(signed, leaves=b""))

    async def filed(self, peer: PeerId, answer: wire.Filed) -> None:
        """Take the ledger's answer."""
        if peer != self.ledger:
            return
        outcome = self._filing.filed(
            answer.voucher_hash, answer.status, answer.reason, self._clock.monotonic()
        )
        if outcome is None:
            return
        if outcome.rejected:
            self.earnings.reject(outcome.rejected)
            logger.error("the ledger rejects a voucher: %s", outcome.rejected)
        else:
            self.earnings.filed += 1
        receipt = OwnReceipt(
            signed=SignedVoucher(
                raw=outcome.filed.raw,
                worker_signature=outcome.filed.worker_signature,
                backbone_signature=outcome.filed.backbone_signature,
            ),
            status=FiledStatus(answer.status),
            reason=answer.reason,
            answered_us=self._clock.wall_us(),
        )
        async with self._disk:
            await trio.to_thread.run_sync(self._keep, receipt, outcome.entries)
        self.wake()

    def hurry(self) -> None:
        """The way to the ledger is back: send filings again at once."""
        self._filing.hurry()
        self.wake()

    async def run(self) -> None:
        """Propose, make durable, send and repeat, until cancelled."""
        while True:
            try:
                await self.step()
            except LedgerError as error:
                logger.warning("the spool of vouchers: %s", error)
                await trio.sleep(1.0)
            self._moved.set()
            self._moved = trio.Event()
            is_idle = self.is_settled and not self._accounts.n_open
            with trio.move_on_after(_IDLE_TICK_S if is_idle else _TICK_S):
                await self._wake.wait()
            self._wake = trio.Event()

    async def step(self) -> None:
        """Do what is due now.

        Raises:
            SpoolFull, StoreUnavailable: the spool; what was decided is kept.
        """
        await self._keep_opened()
        await self._keep_signed()
        now = self._clock.monotonic()
        proposals = self._accounts.due(now, self._clock.wall_us())
        fresh = [(p, each) for p, each in proposals if each.name not in self._open]
        if fresh:
            await self._keep_proposals(fresh)
        for peer, proposal in proposals:
            known = self._open.get(proposal.name)
            if known is not None:  # else it was signed in the meantime
                self._offer(peer, known.proposal)
        for file in self._filing.due(self._clock.monotonic()):
            self._tell(self.ledger, file)

    async def _keep_opened(self) -> None:
        async with self._disk:
            opened = list(self._accounts.opened)
            if not opened:
                return
            now_us = self._clock.wall_us()
            marks = [TabMark.opening(terms, now_us) for terms in opened]
            records = [(SpoolKind.TAB_OPENED, mark.pack()) for mark in marks]
            await trio.to_thread.run_sync(self._write, records)
            del self._accounts.opened[: len(opened)]
            self._opened |= {mark.tab: mark for mark in marks}

    async def _keep_signed(self) -> None:
        async with self._disk:
            if not self._signed:
                return
            batch = list(self._signed)
            records = [
                (SpoolKind.SETTLED, pack_settled(settled)) for settled, _ in batch
            ]
            entries = await trio.to_thread.run_sync(self._write, records)
            del self._signed[: len(batch)]
            for entry, (settled, _) in zip(entries, batch, strict=True):
                self._filing.add(entry, settled)
            replaced = [entry for _, entry in batch if entry is not None]
            await trio.to_thread.run_sync(self._spool.release, replaced)

    async def _keep_proposals(self, fresh: list[tuple[PeerId, Proposal]]) -> None:
        async with self._disk:
            payloads = [pack_proposal(proposal) for _, proposal in fresh]
            records = [(SpoolKind.PROPOSAL, payload) for payload in payloads]
            latest = latest_of([proposal for _, proposal in fresh])
            records += [(kind, payload) for (kind, _), payload in latest.items()]
            entries = await trio.to_thread.run_sync(self._write, records)
            for _, proposal in fresh:
                mark = TabMark.of(proposal.voucher, proposal.name)
                self._marks[mark.key] = mark
            await self._replace(list(latest), entries[len(payloads) :])
        for entry, payload, (peer, proposal) in zip(
            entries[: len(payloads)], payloads, fresh, strict=True
        ):
            self._open[proposal.name] = _Open(
                entry=entry, peer=peer, proposal=unpack_settled(payload)
            )

    def _forget_proposals(self, final: Voucher) -> list[int]:
        """Drop what a final covers and its backbone signs no more; return entries."""
        covered = {
            name: known.entry
            for name, known in self._open.items()
            if Voucher.parse(known.proposal.raw).key == final.key
        }
        for name in covered:
            del self._open[name]
        return list(covered.values())

    async def _replace(
        self, keys: list[tuple[SpoolKind, bytes]], entries: list[int]
    ) -> None:
        """Let go of the records that newer ones replace."""
        stale = [self._latest[key] for key in keys if key in self._latest]
        self._latest.update(zip(keys, entries, strict=True))
        if stale:
            await trio.to_thread.run_sync(self._spool.release, stale)

    def _keep(self, receipt: OwnReceipt, entries: tuple[int, ...]) -> None:
        """Copy a receipt, then let the spool forget it: in this order."""
        if self._copy is not None:
            self._copy.add(receipt)
        self._spool.release(entries)

    def _write(self, records: list[tuple[SpoolKind, bytes]]) -> list[int]:
        entries = [self._spool.append(int(kind), payload) for kind, payload in records]
        self._spool.sync()
        return entries

    def _take_over(self) -> None:
        left = sort_leftovers(self._spool.entries(), self._clock.wall_us())
        for use in left.uses:
            self._accounts.recall(use)
        for entry, settled in left.settled:
            self._filing.add(entry, settled)
        for entry, proposal in left.proposals:
            self._open[voucher_hash(proposal.raw)] = _Open(
                entry=entry,
                peer=PeerId(Voucher.parse(proposal.raw).backbone),
                proposal=proposal,
                left_over=True,
            )
        self._marks, self._opened, self._latest = left.marks, left.opened, left.latest
        self._spool.release(left.done)

    def _left_over(self, peer: PeerId, answer: wire.Countersign) -> Settled | None:
        known = self._open.get(answer.voucher_hash)
        if known is None or known.peer != peer or not answer.backbone_signature:
            return None
        signature = answer.backbone_signature
        verify_voucher(known.proposal.raw, signature, peer)
        return Settled(
            raw=known.proposal.raw,
            worker_signature=known.proposal.worker_signature,
            backbone_signature=signature,
            leaves=known.proposal.leaves,
        )

    def _offer(self, peer: PeerId, proposal: Settled) -> None:
        voucher = wire.Voucher(
            voucher=proposal.raw,
            worker_signature=proposal.worker_signature,
            leaves=proposal.leaves,
        )
        self._tell(peer, voucher)

    def _tell(self, peer: PeerId, message: Message) -> None:
        try:
            self._send(peer, message)
        except LocalError as error:
            # It is sent again, after growing pauses.
            logger.info("to %s: %s", short_id(peer), error)
