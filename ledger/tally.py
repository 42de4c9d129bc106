"""The tally: the accepted leaves of one tab, as worker, backbone and ledger each sum.

Contract: leaves go in as packed blocks, in any order, each serving number once; every
one is checked against the tab, the epoch and the price table before any is taken. The
tally gives the totals and the root that a voucher must show (`check`) or drafts the
next voucher (`draft`). It keeps no leaves: who holds them (spool, leaf file) feeds them
again after a restart or an `OutOfWindow`. A refused block changes nothing. Pure.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from operator import lt, mul

from ledger.amounts import MAX_AMOUNT_UC
from ledger.errors import AmountRefused, ChainRefused, FormatRefused
from ledger.leaf import LEAF_BYTES, LEAF_VERSION
from ledger.merkle import MerkleSum
from ledger.prices import PriceTable
from ledger.ranges import Ranges, contains, union
from ledger.voucher import NO_VOUCHER, Voucher, voucher_hash

__all__ = ["TabTerms", "Tally"]

# Of a packed leaf: version, tab, serving, layer << 16 | expert, rows, epoch, amount.
_COLUMNS = struct.Struct(">B8sI8xIHI40xq")


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


@dataclass(frozen=True, slots=True)
class _Column:
    """Leaves side by side, checked, and their sums."""

    servings: Sequence[int]
    leaves: Sequence[bytes]
    amounts_uc: Sequence[int]
    rows: int
    total_uc: int

    def in_order(self) -> "_Column":
        """Return the same leaves by ascending serving number."""
        order = sorted(range(len(self.servings)), key=self.servings.__getitem__)
        return _Column(
            [self.servings[at] for at in order],
            [self.leaves[at] for at in order],
            [self.amounts_uc[at] for at in order],
            self.rows,
            self.total_uc,
        )


_NO_LEAVES = _Column((), (), (), 0, 0)


class _UnitPrices(dict[int, int]):
    """Unit prices by layer << 16 | expert, looked up in the table when first asked."""

    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices

    def __missing__(self, expert: int) -> int:
        price = self[expert] = self._prices.unit_price(expert >> 16, expert & 0xFFFF)
        return price


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
        self._price_hash = _price_hash(prices)
        self._ranges: list[tuple[int, int]] = []  # canonical
        self._unit_prices = _UnitPrices(prices)
        self._peer = terms.worker

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
        new = self._checked(block)
        if not new.servings:
            return
        if self._ranges and new.servings[0] < self._ranges[-1][1]:
            places = _places(self._ranges, new.servings)
            self._tree.insert(
                list(zip(places, new.leaves, new.amounts_uc, strict=True))
            )
        else:
            self._tree.extend(new.leaves, new.amounts_uc)
        self._accept(new.servings)
        self.rows += new.rows
        self.amount_uc += new.total_uc

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

    def _checked(self, block: bytes) -> _Column:
        """Return a block's leaves in order of their serving numbers, checked."""
        n, rest = divmod(len(block), LEAF_BYTES)
        if rest:
            raise FormatRefused(f"{len(block)} bytes of leaves", peer=self._peer)
        if not n:
            return _NO_LEAVES
        # Column by column: several times as fast as leaf by leaf.
        versions, tabs, servings, experts, rows, epochs, amounts_uc = zip(
            *_COLUMNS.iter_unpack(block), strict=True
        )
        owed_uc = tuple(map(mul, rows, map(self._unit_prices.__getitem__, experts)))
        if (
            versions.count(LEAF_VERSION) != n
            or tabs.count(self.terms.tab) != n
            or epochs.count(self.prices.epoch) != n
            or owed_uc != amounts_uc
            or 0 in rows
        ):
            self._refuse_first_wrong(block)
        total_uc = sum(amounts_uc)
        if total_uc + self.amount_uc > MAX_AMOUNT_UC:
            raise AmountRefused(
                f"tab passes {MAX_AMOUNT_UC} micro-credits", peer=self._peer
            )
        leaves = [
            block[at : at + LEAF_BYTES] for at in range(0, n * LEAF_BYTES, LEAF_BYTES)
        ]
        taken = _Column(servings, leaves, amounts_uc, sum(rows), total_uc)
        if not all(map(lt, servings, islice(servings, 1, None))):
            taken = taken.in_order()
        self._refuse_repeats(taken.servings)
        return taken

    def _refuse_first_wrong(self, block: bytes) -> None:
        """Name the first leaf of a block that is not as the terms and prices say."""
        expected = (LEAF_VERSION, self.terms.tab, self.prices.epoch)
        for fields in _COLUMNS.iter_unpack(block):
            version, tab, serving, expert, rows, epoch, amount_uc = fields
            if (version, tab, epoch) != expected:
                raise FormatRefused(
                    f"leaf {serving} is of another version, tab or epoch",
                    peer=self._peer,
                )
            price = self._unit_prices[expert]
            if amount_uc != rows * price or not rows:
                raise AmountRefused(
                    f"leaf {serving}: {amount_uc} for {rows} rows at {price}",
                    peer=self._peer,
                )

    def _refuse_repeats(self, servings: Sequence[int]) -> None:
        for serving, following in pairwise(servings):
            if serving == following:
                raise FormatRefused(f"serving {serving} twice", peer=self._peer)
        if not self._ranges or servings[0] > self._ranges[-1][1]:
            return
        for serving in servings:
            if contains(self._ranges, serving):
                raise FormatRefused(f"serving {serving} twice", peer=self._peer)

    def _accept(self, servings: Sequence[int]) -> None:
        """Add sorted serving numbers to the ranges."""
        runs = _runs(servings)
        if self._ranges and runs[0][0] > self._ranges[-1][1]:
            self._ranges[-1:] = union(self._ranges[-1:], runs)
        else:
            self._ranges = list(union(self._ranges, runs))


@lru_cache(maxsize=64)
def _price_hash(prices: PriceTable) -> bytes:
    """Return a table's name; packing a large one takes milliseconds."""
    return prices.content_hash


def _runs(servings: Sequence[int]) -> list[tuple[int, int]]:
    """Return sorted numbers, none twice, as ranges."""
    first, last = servings[0], servings[-1]
    if last - first == len(servings) - 1:
        return [(first, last)]
    runs = [(first, first)]
    for serving in servings[1:]:
        if serving == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], serving)
        else:
            runs.append((serving, serving))
    return runs


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
