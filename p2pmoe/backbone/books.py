"""The leaves of one tab and price epoch, as the backbone builds and signs for them.

A leaf is built here from what was dispatched and what came back (`build_leaves`), never
from what the worker says. A voucher is countersigned only if it claims, under the same
terms and prices, servings that were accepted here and are not refused, with exactly
the totals and the root of *our* leaves, and extends the voucher before. A book whose
worker lost its tab is sealed: by a final voucher that we drafted and signed alone, and
then nothing else is signed in it. Pure.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from ledger.errors import LedgerError, RemoteError
from ledger.leaf import LEAF_BYTES, LEAF_STRUCT, LeafPacker
from ledger.prices import PriceTable
from ledger.ranges import Ranges, count, subtract, union
from ledger.tally import TabTerms, Tally
from ledger.voucher import Voucher, check_extends, verify_voucher, voucher_hash
from mobile_worker.servings.hashes import out_hash, x_hash
from p2pmoe.backbone.servings import Served
from p2pmoe.errors import VoucherRefused

__all__ = ["Book", "Examined", "block_ranges", "build_leaves"]

_SERVING = 2  # place of the serving number in LEAF_STRUCT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Examined:
    """A voucher that may be countersigned, and what the book becomes by it."""

    voucher: Voucher
    raw: bytes
    name: bytes  # its hash
    worker_signature: bytes
    leaves: bytes  # those it adds, 79 bytes each, ours
    tally: Tally

    @property
    def n_leaves(self) -> int:
        """How many leaves it adds."""
        return len(self.leaves) // LEAF_BYTES


def build_leaves(served: Served, prices: PriceTable) -> bytes:
    """Return the packed leaves of one accepted answer, 79 bytes each; hashes rows."""
    packer = LeafPacker(
        tab=served.slot.tab,
        request=served.request,
        layer=served.layer,
        price_epoch=prices.epoch,
        nonce=served.nonce,
    )
    leaves = []
    for number, result in enumerate(served.results, start=served.slot.first):
        call = result.call
        n_rows = len(call.rows)
        amount_uc = prices.amount(served.layer, call.expert, n_rows)
        rows = served.rows.take(np.array(call.rows, np.int64))
        leaves.append(
            packer.pack(
                number,
                (call.expert, n_rows, amount_uc),
                x_hash(rows),
                out_hash(result.coded),
            )
        )
    return b"".join(leaves)


def block_ranges(block: bytes) -> Ranges:
    """Return the serving numbers of a block of packed leaves."""
    numbers = [fields[_SERVING] for fields in LEAF_STRUCT.iter_unpack(block)]
    return union((), [(number, number) for number in numbers])


class Book:
    """Accepted leaves, and the last voucher countersigned for them."""

    def __init__(self, terms: TabTerms, prices: PriceTable) -> None:
        """Begin without leaves."""
        self.terms = terms
        self.prices = prices
        self.accepted: Ranges = ()
        self.last: Examined | None = None
        self.last_signature = b""
        self.sealed: Examined | None = None  # our own final, without the worker
        self.seal_signature = b""
        self._leaves: dict[int, bytes] = {}  # accepted, in no countersigned voucher
        self._tally = Tally(terms, prices)

    @property
    def n_accepted(self) -> int:
        """Servings accepted in all."""
        return count(self.accepted)

    @property
    def n_receipted(self) -> int:
        """Servings in the last voucher that both sides signed."""
        return self._tally.leaves

    @property
    def unsigned(self) -> Ranges:
        """Accepted servings that no countersigned voucher holds yet."""
        return subtract(self.accepted, self._tally.ranges)

    @property
    def unsigned_uc(self) -> int:
        """Micro-credits of the accepted servings that no voucher holds yet."""
        packed = self._packed(self.unsigned)
        return sum(fields[-1] for fields in LEAF_STRUCT.iter_unpack(packed))

    @property
    def is_closed(self) -> bool:
        """Whether a final voucher has both signatures."""
        return self.last is not None and self.last.voucher.final

    def accept(self, block: bytes) -> Ranges:
        """Take packed leaves in, once each; return their serving numbers."""
        for start in range(0, len(block), LEAF_BYTES):
            leaf = block[start : start + LEAF_BYTES]
            number = LEAF_STRUCT.unpack(leaf)[_SERVING]
            self._leaves[number] = leaf
        ranges = block_ranges(block)
        for first, last in subtract(ranges, subtract(ranges, self._tally.ranges)):
            for number in range(first, last + 1):
                self._leaves.pop(number, None)
        self.accepted = union(self.accepted, ranges)
        return ranges

    def examine(
        self, raw: bytes, worker_signature: bytes, grants: Container[bytes]
    ) -> Examined:
        """Return what countersigning this voucher would mean.

        Args:
            raw: the voucher's bytes as received.
            worker_signature: 64 bytes over them.
            grants: hashes of the grants that this worker has from us.

        Raises:
            VoucherRefused: it is not what our own leaves say.
        """
        peer = self.terms.worker
        try:
            voucher = Voucher.parse(raw)
            verify_voucher(raw, worker_signature, peer)
        except RemoteError as error:
            raise VoucherRefused(str(error), peer=peer) from error
        if self.sealed is not None:
            if raw != self.sealed.raw:
                raise VoucherRefused(
                    f"the tab was closed by our final {self.sealed.voucher.number}",
                    peer=peer,
                )
            return replace(self.sealed, worker_signature=worker_signature)
        if TabTerms.of(voucher) != self.terms:
            raise VoucherRefused("a voucher of other terms", peer=peer)
        if voucher.grant_hash not in grants:
            raise VoucherRefused(
                f"voucher {voucher.number} names an unknown grant", peer=peer
            )
        unknown = subtract(voucher.ranges, self.accepted)
        if unknown:
            raise VoucherRefused(
                f"voucher {voucher.number} claims servings never accepted: "
                f"{unknown[0][0]}..{unknown[0][1]}",
                peer=peer,
            )
        return self._compared(voucher, raw, worker_signature)

    def draft_final(self, grant_hash: bytes, issued_us: int) -> Examined:
        """Return a final over all that was accepted, for a worker that lost its tab.

        Its number leaves one out: the worker may have signed a proposal that we never
        saw, and must not sign another voucher of that number.

        Raises:
            VoucherRefused: the leaves cannot be summed any more.
        """
        last = self.last.voucher if self.last else None
        leaves = self._packed(self.unsigned)
        tally = self._tally.copy()
        try:
            tally.add(leaves)
        except LedgerError as error:
            raise VoucherRefused(str(error), peer=self.terms.worker) from error
        drafted = tally.draft(
            last, grant_hash=grant_hash, issued_us=issued_us, final=True
        )
        before = drafted.previous if last else sha256(self.terms.tab).digest()
        voucher = replace(drafted, number=drafted.number + 1, previous=before)
        raw = voucher.pack()
        return Examined(
            voucher=voucher,
            raw=raw,
            name=voucher_hash(raw),
            worker_signature=b"",
            leaves=leaves,
            tally=tally,
        )

    def examine_final(self, raw: bytes) -> Examined:
        """Return our own final of an earlier run anew, from the leaves.

        Raises:
            VoucherRefused, FormatRefused: it is not what our leaves say.
        """
        return self._compared(Voucher.parse(raw), raw, b"")

    def seal(self, final: Examined, signature: bytes) -> None:
        """Sign nothing in this book any more but our own final."""
        self.sealed, self.seal_signature = final, signature

    def commit(self, examined: Examined, signature: bytes) -> None:
        """Make an examined voucher the last one; `signature` is ours."""
        self.last = examined
        self.last_signature = signature
        self._tally = examined.tally
        for fields in LEAF_STRUCT.iter_unpack(examined.leaves):
            self._leaves.pop(fields[_SERVING], None)

    def _compared(
        self, voucher: Voucher, raw: bytes, worker_signature: bytes
    ) -> Examined:
        added = subtract(voucher.ranges, self._tally.ranges)
        leaves = self._packed(added)
        tally = self._tally.copy()
        try:
            check_extends(self.last.voucher if self.last else None, voucher)
            tally.add(leaves)
            tally.check(voucher)
        except LedgerError as error:
            raise VoucherRefused(str(error), peer=self.terms.worker) from error
        return Examined(
            voucher=voucher,
            raw=raw,
            name=voucher_hash(raw),
            worker_signature=worker_signature,
            leaves=leaves,
            tally=tally,
        )

    def _packed(self, ranges: Sequence[tuple[int, int]]) -> bytes:
        return b"".join(
            self._leaves[number]
            for first, last in ranges
            for number in range(first, last + 1)
        )
