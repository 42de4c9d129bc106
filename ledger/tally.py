"""The tally: the accepted leaves of one tab, as worker, backbone and ledger each sum.

Contract: leaves go in as packed blocks, in any order, each serving number once; every
one is checked against the tab, the epoch and the price table before any is taken. The
tally gives the totals and the root that a voucher must show (`check`) or drafts the
next voucher (`draft`). It keeps no leaves: who holds them (spool, leaf file) feeds them
again after a restart or an `OutOfWindow`. A refused block changes nothing. Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ledger.amounts import MAX_AMOUNT_UC
from ledger.errors import AmountRefused, ChainRefused, FormatRefused
from ledger.leaf import LEAF_BYTES, LEAF_STRUCT, LEAF_VERSION
from ledger.merkle import MerkleSum
from ledger.prices import PriceTable
from ledger.ranges import Ranges, contains, union
from ledger.voucher import NO_VOUCHER, Voucher, voucher_hash

__all__ = ["TabTerms", "Tally"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TabTerms:
    """What stays the same in every voucher of one tab and price epoch."""

    network: bytes  # [32]
    manifest_hash: bytes  # [32]
    profile: int
    worker: bytes  # [32]
    backbone: bytes  # [32]
    tab: bytes  # [8]

    @staticmethod
    def of(voucher: Voucher) -> "TabTerms":
        """Return the terms that a voucher is written under."""
        return TabTerms(
            network=voucher.network,
            manifest_hash=voucher.manifest_hash,
            profile=voucher.profile,
            worker=voucher.worker,
            backbone=voucher.backbone,
            tab=voucher.tab,
        )


class Tally:
    """Totals, ranges and root over the accepted leaves of one tab and epoch."""

    def __init__(
        self, terms: TabTerms, prices: PriceTable, *, window: int = 16_384
    ) -> None:
        """Start empty; `window` is how many leaves back a late one may belong."""
        self.terms = terms
        self.prices = prices
        self.rows = 0
        self.amount_uc = 0
        self._tree = MerkleSum(window)
        self._price_hash = prices.content_hash
        self._ranges: list[tuple[int, int]] = []  # canonical
        self._unit_prices: dict[int, int] = {}

    @property
    def leaves(self) -> int:
        """Number of accepted servings."""
        return len(self._tree)

    @property
    def ranges(self) -> Ranges:
        """The accepted serving numbers."""
        return tuple(self._ranges)

    @property
    def root(self) -> bytes:
        """The 32-byte Merkle-sum root."""
        return self._tree.root.hash

    def copy(self) -> "Tally":
        """Return an independent copy; O(window)."""
        twin = Tally(self.terms, self.prices)
        twin.rows, twin.amount_uc = self.rows, self.amount_uc
        twin._tree = self._tree.copy()
        twin._ranges = self._ranges.copy()
        twin._unit_prices = self._unit_prices
        return twin

    def add(self, block: bytes) -> None:
        """Take a block of packed leaves, in any order.

        Raises:
            FormatRefused: no whole leaves, a foreign tab or epoch, a serving twice.
            AmountRefused: an amount is not rows * unit price, or the sum overflows.
            OutOfWindow: a leaf belongs too far back; build a new tally from all leaves.
        """
        new, rows, amount_uc = self._checked(block)
        if not new:
            return
        if self._ranges and new[0][0] < self._ranges[-1][1]:
            places = _places(self._ranges, [serving for serving, _, _ in new])
            self._tree.insert(
                [
                    (at, leaf, amount)
                    for at, (_, leaf, amount) in zip(places, new, strict=True)
                ]
            )
        else:
            for _, leaf, amount in new:
                self._tree.append(leaf, amount)
        self._accept(serving for serving, _, _ in new)
        self.rows += rows
        self.amount_uc += amount_uc

    def check(self, voucher: Voucher) -> None:
        """Check that a voucher claims exactly these leaves.

        Raises:
            ChainRefused: names the first field that differs.
        """
        expected = {
            "accepted ranges": (self.ranges, voucher.ranges),
            "leaves": (self.leaves, voucher.leaves),
            "rows": (self.rows, voucher.rows),
            "amount_uc": (self.amount_uc, voucher.amount_uc),
            "price epoch": (self.prices.epoch, voucher.price_epoch),
            "price table": (self._price_hash, voucher.price_table_hash),
            "root": (self.root, voucher.root),
            "terms": (self.terms, TabTerms.of(voucher)),
        }
        for name, (ours, theirs) in expected.items():
            if ours != theirs:
                raise ChainRefused(
                    f"voucher {voucher.number}: {name} differs from the leaves",
                    peer=voucher.worker,
                )

    def draft(
        self,
        previous: Voucher | None,
        *,
        grant_hash: bytes,
        issued_us: int,
        final: bool = False,
    ) -> Voucher:
        """Return the next voucher, unsigned, over all leaves taken so far.

        It is never issued before the previous one, even if a clock was put back.
        """
        if previous is not None:
            issued_us = max(issued_us, previous.issued_us)
        return Voucher(
            network=self.terms.network,
            manifest_hash=self.terms.manifest_hash,
            profile=self.terms.profile,
            worker=self.terms.worker,
            backbone=self.terms.backbone,
            tab=self.terms.tab,
            price_epoch=self.prices.epoch,
            number=previous.number + 1 if previous else 1,
            previous=voucher_hash(previous.pack()) if previous else NO_VOUCHER,
            final=final,
            ranges=self.ranges,
            leaves=self.leaves,
            rows=self.rows,
            amount_uc=self.amount_uc,
            price_table_hash=self._price_hash,
            grant_hash=grant_hash,
            root=self.root,
            issued_us=issued_us,
        )

    def _checked(self, block: bytes) -> tuple[list[tuple[int, bytes, int]], int, int]:
        """Return (serving, leaf, amount) in order, all rows and the total."""
        peer = self.terms.worker
        if len(block) % LEAF_BYTES:
            raise FormatRefused(f"{len(block)} bytes of leaves", peer=peer)
        tab, epoch, prices = self.terms.tab, self.prices.epoch, self._unit_prices
        new: list[tuple[int, bytes, int]] = []
        all_rows = total = start = 0
        for fields in LEAF_STRUCT.iter_unpack(block):
            version, leaf_tab, serving, _, layer, expert, rows, leaf_epoch = fields[:8]
            if version != LEAF_VERSION or leaf_tab != tab or leaf_epoch != epoch:
                raise FormatRefused(
                    f"leaf {serving} is of another version, tab or epoch", peer=peer
                )
            price = prices.get(layer << 16 | expert)
            if price is None:
                price = self.prices.unit_price(layer, expert)
                prices[layer << 16 | expert] = price
            amount_uc = fields[-1]
            if amount_uc != rows * price or not rows:
                raise AmountRefused(
                    f"leaf {serving}: {amount_uc} for {rows} rows at {price}", peer=peer
                )
            new.append((serving, block[start : start + LEAF_BYTES], amount_uc))
            all_rows += rows
            total += amount_uc
            start += LEAF_BYTES
        if total + self.amount_uc > MAX_AMOUNT_UC:
            raise AmountRefused(f"tab passes {MAX_AMOUNT_UC} micro-credits", peer=peer)
        new.sort()
        self._refuse_repeats(new)
        return new, all_rows, total

    def _refuse_repeats(self, new: list[tuple[int, bytes, int]]) -> None:
        for (serving, _, _), (following, _, _) in pairwise(new):
            if serving == following:
                raise FormatRefused(f"serving {serving} twice", peer=self.terms.worker)
        if not self._ranges or not new or new[0][0] > self._ranges[-1][1]:
            return
        for serving, _, _ in new:
            if contains(self._ranges, serving):
                raise FormatRefused(f"serving {serving} twice", peer=self.terms.worker)

    def _accept(self, servings: Iterable[int]) -> None:
        """Add sorted serving numbers to the ranges."""
        runs: list[tuple[int, int]] = []
        for serving in servings:
            if runs and serving == runs[-1][1] + 1:
                runs[-1] = (runs[-1][0], serving)
            else:
                runs.append((serving, serving))
        if self._ranges and runs[0][0] > self._ranges[-1][1]:
            self._ranges[-1:] = union(self._ranges[-1:], runs)
        else:
            self._ranges = list(union(self._ranges, runs))


def _places(ranges: Sequence[tuple[int, int]], servings: Sequence[int]) -> list[int]:
    """Return for each sorted serving how many numbers of the set lie below it."""
    places: list[int] = []
    at = before = 0
    for serving in servings:
        while at < len(ranges) and ranges[at][1] < serving:
            before += ranges[at][1] - ranges[at][0] + 1
            at += 1
        places.append(before)
    return places
