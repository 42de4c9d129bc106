"""Do a worker's own receipts and the ledger's books say the same? Every difference.

Contract: pure. Own receipts are checked by themselves first: both signatures over the
bytes as they were filed, numbers and sums that only grow, no two different vouchers of
one number. Then they are compared with the ledger's rows, as `ledger receipts --json`
prints them: what the ledger acknowledged must be there, or be covered by a later
voucher of its tab, and so must be here what the ledger has: vouchers are cumulative,
and each side files several as one; what the rows add must be what the vouchers say.
Rows that the ledger stored before the first own receipt are older than this copy, and
no difference.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ledger.claims import FiledStatus
from ledger.errors import FormatRefused, RemoteError
from ledger.periods import format_us
from ledger.voucher import (
    SignedVoucher,
    Voucher,
    VoucherKey,
    check_extends,
    verify_voucher,
    voucher_hash,
)
from mobile_worker.servings.own_copy import OwnReceipt

__all__ = [
    "Checked",
    "Comparison",
    "Difference",
    "LedgerRow",
    "check_own",
    "compare",
    "parse_rows",
]

MAX_ROWS = 5_000_000
_ACCEPTED = (FiledStatus.STORED, FiledStatus.DUPLICATE)
_OLDER_US = 60_000_000  # the ledger's clock and ours may differ by so much


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """An own receipt whose signatures hold."""

    receipt: OwnReceipt
    voucher: Voucher
    hash: bytes

    @property
    def is_accepted(self) -> bool:
        """Whether the ledger acknowledged it."""
        return self.receipt.status in _ACCEPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """What the ledger says of one receipt."""

    hash: bytes
    key: VoucherKey
    number: int
    status: str
    reason: str
    servings: int
    amount_uc: int
    time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that does not agree; `what` is a sentence for people."""

    voucher: bytes
    tab: bytes
    price_epoch: int
    number: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All differences, and what was compared."""

    receipts: int
    servings: int
    amount_uc: int
    older: int  # rows of the ledger from before this copy began
    differences: tuple[Difference, ...]


def check_own(
    receipts: Iterable[OwnReceipt], worker: bytes
) -> tuple[list[Checked], list[Difference]]:
    """Check a worker's own receipts; return the good ones and what is wrong."""
    checked: list[Checked] = []
    wrong: list[Difference] = []
    for receipt in receipts:
        name = voucher_hash(receipt.signed.raw)
        try:
            voucher = _verified(receipt.signed)
        except RemoteError as exc:
            wrong.append(_nameless(name, f"no good in this copy: {exc}"))
            continue
        one = Checked(receipt=receipt, voucher=voucher, hash=name)
        if voucher.worker != worker:
            wrong.append(_difference(one, "a voucher of another worker"))
        else:
            checked.append(one)
    for found in _by_key(checked).values():
        wrong += _unchained(found)
    return checked, wrong


def compare(own: Sequence[Checked], rows: Sequence[LedgerRow]) -> Comparison:
    """Compare own receipts with the ledger's rows of the same worker."""
    told = {row.hash: row for row in rows}
    highest: defaultdict[VoucherKey, int] = defaultdict(int)
    for row in rows:
        if row.status != "rejected":
            highest[row.key] = max(highest[row.key], row.number)
    differences = [
        difference
        for one in own
        if (difference := _of_own(one, told.get(one.hash), highest)) is not None
    ]
    differences += _of_sums(own, rows)
    strangers, older = _not_here(own, rows)
    newest = [found[-1].voucher for found in _by_key(own, accepted=True).values()]
    return Comparison(
        receipts=len(own),
        servings=sum(voucher.leaves for voucher in newest),
        amount_uc=sum(voucher.amount_uc for voucher in newest),
        older=older,
        differences=(*differences, *strangers),
    )


def parse_rows(document: object) -> list[LedgerRow]:
    """Read the rows of `ledger receipts --json`, or of the ledger's page.

    Raises:
        FormatRefused: it is something else.
    """
    rows = document.get("vouchers") if isinstance(document, Mapping) else None
    if not isinstance(rows, list) or len(rows) > MAX_ROWS:
        raise FormatRefused("no list of receipts: it has no `vouchers`")
    return [_parse_row(row) for row in rows]


def _parse_row(row: object) -> LedgerRow:
    if not isinstance(row, Mapping):
        raise FormatRefused("a receipt that is no object")
    key = VoucherKey(
        _hex(row, "worker", 32),
        _hex(row, "backbone", 32),
        _hex(row, "tab", 8),
        _number(row, "epoch"),
    )
    return LedgerRow(
        hash=_hex(row, "voucher", 32),
        key=key,
        number=_number(row, "number"),
        status=_text(row, "status"),
        reason=_text(row, "reason"),
        servings=_number(row, "servings"),
        amount_uc=_number(row, "amount_uc"),
        time=_text(row, "time"),
    )


def _hex(row: Mapping[object, object], name: str, n_bytes: int) -> bytes:
    try:
        raw = bytes.fromhex(_text(row, name))
    except ValueError:
        raw = b""
    # A refused voucher whose bytes say nothing has neither peer nor tab.
    if len(raw) != n_bytes and (raw or row.get("status") != "rejected"):
        raise FormatRefused(f"a receipt whose {name} is not {n_bytes} bytes of hex")
    return raw


def _text(row: Mapping[object, object], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or len(value) > 1000:
        raise FormatRefused(f"a receipt without {name}")
    return value


def _number(row: Mapping[object, object], name: str) -> int:
    value = row.get(name)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise FormatRefused(f"a receipt whose {name} is no number")
    return value


def _verified(signed: SignedVoucher) -> Voucher:
    """Return the voucher that this worker signed, and its backbone as well.

    A final that the worker signed after its backbone is filed with one signature; the
    other has its place filled with zeros.
    """
    voucher = Voucher.parse(signed.raw)
    pairs = (
        (signed.worker_signature, voucher.worker),
        (signed.backbone_signature, voucher.backbone),
    )
    given = [(signature, by) for signature, by in pairs if any(signature)]
    if not given:
        raise FormatRefused("voucher without a signature")
    for signature, by in given:
        verify_voucher(signed.raw, signature, by)
    return voucher


def _by_key(
    own: Iterable[Checked], *, accepted: bool = False
) -> dict[VoucherKey, list[Checked]]:
    found: defaultdict[VoucherKey, list[Checked]] = defaultdict(list)
    for one in own:
        if one.is_accepted or not accepted:
            found[one.voucher.key].append(one)
    return {
        key: sorted(each, key=lambda one: one.voucher.number)
        for key, each in found.items()
    }


def _unchained(found: Sequence[Checked]) -> list[Difference]:
    wrong = []
    for earlier, later in pairwise(found):
        if earlier.hash == later.hash:
            continue
        if earlier.voucher.number == later.voucher.number:
            wrong.append(_difference(later, "another voucher has its number"))
            continue
        try:
            check_extends(earlier.voucher, later.voucher)
        except RemoteError as exc:
            wrong.append(_difference(later, f"does not fit the one before: {exc}"))
    return wrong


def _of_own(
    one: Checked, row: LedgerRow | None, highest: Mapping[VoucherKey, int]
) -> Difference | None:
    what = ""
    if not one.is_accepted:
        if row is not None and row.status != "rejected":
            what = f"refused to us, {row.status} in the ledger"
    elif row is None:
        # A later voucher of the tab covers it, if there is one.
        if highest.get(one.voucher.key, 0) <= one.voucher.number:
            what = "acknowledged to us, not in the ledger"
    elif row.status == "rejected":
        why = row.reason or "no reason"
        what = f"acknowledged to us, rejected in the ledger: {why}"
    elif (row.key, row.number) != (one.voucher.key, one.voucher.number):
        what = "the ledger has it under another tab or number"
    return _difference(one, what) if what else None


def _of_sums(own: Sequence[Checked], rows: Sequence[LedgerRow]) -> list[Difference]:
    """Find rows that add another amount than their vouchers say.

    Rows that we lack, and a later one covers, count with the next that we have.
    """
    ours = {one.hash: one for one in own}
    by_key: defaultdict[VoucherKey, list[LedgerRow]] = defaultdict(list)
    for row in rows:
        if row.status != "rejected" or row.reason == "reversed":
            by_key[row.key].append(row)
    wrong = []
    for found in by_key.values():
        found.sort(key=lambda row: row.number)
        earlier: Checked | None = None
        told_uc, is_first = 0, True  # since the last row that we have too
        for row in found:
            told_uc += row.amount_uc
            one = ours.get(row.hash)
            if one is None:
                continue
            added = one.voucher.amount_uc
            added -= earlier.voucher.amount_uc if earlier is not None else 0
            # The first row told need not be the tab's first: it may add less.
            if told_uc != added and not (is_first and 0 <= told_uc < added):
                what = f"adds {added} micro-credits, {told_uc} in the ledger"
                wrong.append(_difference(one, what))
            earlier, told_uc, is_first = one, 0, False
    return wrong


def _not_here(
    own: Sequence[Checked], rows: Sequence[LedgerRow]
) -> tuple[list[Difference], int]:
    """Return accepted rows that this copy lacks, and how many are older than it."""
    ours = {one.hash for one in own}
    covered = {
        key: found[-1].voucher.number
        for key, found in _by_key(own, accepted=True).items()
    }
    began_us = min((one.receipt.answered_us for one in own), default=None)
    began = "9" if began_us is None else format_us(max(0, began_us - _OLDER_US))
    lacking, older = [], 0
    for row in rows:
        if row.hash in ours or row.status == "rejected" or row.reason == "one-sided":
            continue
        if row.time < began:
            older += 1
            continue
        if row.number < covered.get(row.key, 0):
            continue  # its backbone filed it; we filed a later one, which holds it
        lacking.append(
            Difference(
                voucher=row.hash,
                tab=row.key.tab,
                price_epoch=row.key.price_epoch,
                number=row.number,
                what=f"{row.status} in the ledger, not in this copy",
            )
        )
    return lacking, older


def _difference(one: Checked, what: str) -> Difference:
    return Difference(
        voucher=one.hash,
        tab=one.voucher.tab,
        price_epoch=one.voucher.price_epoch,
        number=one.voucher.number,
        what=what,
    )


def _nameless(name: bytes, what: str) -> Difference:
    return Difference(voucher=name, tab=b"", price_epoch=0, number=0, what=what)
