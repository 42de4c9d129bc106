"""The receipt for one expert served: everything that proves it, in one JSON file.

Contract: leaf + path + doubly signed voucher + the grant it was served under + the
price table it was priced by, each as the received bytes in hex with its signature.
`verify_receipt` needs no network and no database: given the ids of network, ledger and
market it re-derives everything. The JSON is strict: known members only, no member
twice, no floats; numbers that JavaScript would round are strings. Once the voucher is
closed, `proofs` also shows it in the log, under a checkpoint (`ledger.log.proofs`).
Proofs that this program does not know are listed as unchecked, never as good.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ledger.errors import FormatRefused, GrantRefused, ProofRefused
from ledger.grant import Grant, verify_grant
from ledger.leaf import Leaf
from ledger.log.proofs import LOG_PROOFS, LogCheck, LogProof
from ledger.merkle import Node, leaf_hash, verify_inclusion
from ledger.prices import PriceTable, verify_price_table
from ledger.ranges import Ranges, contains
from ledger.voucher import SignedVoucher, Voucher

__all__ = [
    "MAX_RECEIPT_BYTES",
    "RECEIPT_FORMAT",
    "Receipt",
    "ReceiptCheck",
    "position_of",
    "verify_receipt",
]

RECEIPT_FORMAT = "p2pmoe receipt 1"
MAX_RECEIPT_BYTES = 8 << 20
_MEMBERS = {"format", "leaf", "voucher", "grant", "prices", "proofs"}
_SUM_TREE = "sum_tree"
_SUM = re.compile(r"0|[1-9][0-9]{0,18}")  # one text for each sum below 10^19

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The bytes of a receipt, not yet checked."""

    leaf: bytes
    path: tuple[Node, ...]
    signed: SignedVoucher
    grant: bytes
    grant_signature: bytes
    prices: bytes
    price_signature: bytes
    other_proofs: Mapping[str, object]  # by name, as parsed from JSON

    def to_json(self) -> str:
        """Return the file's text, the same for the same receipt."""
        document = {
            "format": RECEIPT_FORMAT,
            "leaf": self.leaf.hex(),
            "voucher": {
                "bytes": self.signed.raw.hex(),
                "worker_signature": self.signed.worker_signature.hex(),
                "backbone_signature": self.signed.backbone_signature.hex(),
            },
            "grant": {
                "bytes": self.grant.hex(),
                "ledger_signature": self.grant_signature.hex(),
            },
            "prices": {
                "bytes": self.prices.hex(),
                "market_signature": self.price_signature.hex(),
            },
            "proofs": {
                _SUM_TREE: [
                    {"hash": step.hash.hex(), "sum_uc": str(step.sum_uc)}
                    for step in self.path
                ],
                **self.other_proofs,
            },
        }
        return json.dumps(document, indent=2) + "\n"

    @staticmethod
    def from_json(text: str | bytes) -> "Receipt":
        """Read a receipt file.

        Raises:
            FormatRefused: no strict JSON of this format.
        """
        document = _strict_json(text)
        if document.get("format") != RECEIPT_FORMAT or set(document) != _MEMBERS:
            raise FormatRefused(f"no receipt: format {document.get('format')!r}")
        voucher = _section(document, "voucher")
        grant = _section(document, "grant")
        prices = _section(document, "prices")
        proofs = _section(document, "proofs")
        return Receipt(
            leaf=_hex(document, "leaf"),
            path=_path(proofs.get(_SUM_TREE)),
            signed=SignedVoucher(
                raw=_hex(voucher, "bytes"),
                worker_signature=_hex(voucher, "worker_signature"),
                backbone_signature=_hex(voucher, "backbone_signature"),
            ),
            grant=_hex(grant, "bytes"),
            grant_signature=_hex(grant, "ledger_signature"),
            prices=_hex(prices, "bytes"),
            price_signature=_hex(prices, "market_signature"),
            other_proofs={k: v for k, v in proofs.items() if k != _SUM_TREE},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptCheck:
    """What a verified receipt says."""

    leaf: Leaf
    voucher: Voucher
    grant: Grant
    log: LogCheck | None  # where the log has it; None: the receipt does not say
    unchecked: tuple[str, ...]  # names of further proofs that were not looked at


def position_of(ranges: Ranges, serving: int) -> int:
    """Return a serving's place in the tree: how many accepted ones are below it.

    Raises:
        ProofRefused: the serving is not among the accepted.
    """
    if not contains(ranges, serving):
        raise ProofRefused(f"serving {serving} is not accepted by the voucher")
    return sum(
        min(last, serving - 1) - first + 1 for first, last in ranges if first < serving
    )


def verify_receipt(
    receipt: Receipt,
    *,
    network: bytes,
    ledger: bytes,
    market: bytes,
    logged: bool = False,
    witnesses: Collection[bytes] = (),
) -> ReceiptCheck:
    """Check a receipt against the 32-byte ids of network, ledger and market.

    Args:
        receipt: as read.
        network: whose voucher it must be.
        ledger: who must have signed grant and checkpoint.
        market: who must have signed the prices.
        logged: demand that the log has the voucher.
        witnesses: 32-byte keys; demand that all cosigned the log's checkpoint.

    Raises:
        SignatureRefused, KeyRefused, FormatRefused, AmountRefused: a part of it.
        GrantRefused: voucher, grant and prices do not belong together.
        ProofRefused: the leaf is not what the voucher signed, or the log has it not.
    """
    voucher = receipt.signed.verified()
    grant = verify_grant(receipt.grant, receipt.grant_signature, ledger)
    prices = verify_price_table(receipt.prices, receipt.price_signature, market)
    leaf = Leaf.parse(receipt.leaf)
    _check_parts(voucher, grant, prices, network)
    if (leaf.tab, leaf.price_epoch) != (voucher.tab, voucher.price_epoch):
        raise ProofRefused(f"leaf {leaf.serving} is of another tab or epoch")
    if leaf.amount_uc != prices.amount(leaf.layer, leaf.expert, leaf.rows):
        raise ProofRefused(f"leaf {leaf.serving} claims {leaf.amount_uc}")
    verify_inclusion(
        Node(leaf_hash(receipt.leaf), leaf.amount_uc),
        position_of(voucher.ranges, leaf.serving),
        voucher.leaves,
        receipt.path,
        Node(voucher.root, voucher.amount_uc),
    )
    proof = LogProof.from_members(receipt.other_proofs)
    if proof is None and (logged or witnesses):
        raise ProofRefused("receipt does not show its voucher in the log")
    log = None
    if proof is not None:
        log = proof.verify(
            receipt.signed, network=network, ledger=ledger, witnesses=witnesses
        )
    return ReceiptCheck(
        leaf=leaf,
        voucher=voucher,
        grant=grant,
        log=log,
        unchecked=tuple(sorted(set(receipt.other_proofs) - set(LOG_PROOFS))),
    )


def _check_parts(
    voucher: Voucher, grant: Grant, prices: PriceTable, network: bytes
) -> None:
    """Check that voucher, grant and prices belong together."""
    expected = {
        "network": (voucher.network, network),
        "grant": (voucher.grant_hash, grant.content_hash),
        "grant's network": (grant.network, network),
        "grant's worker": (grant.worker, voucher.worker),
        "grant's backbone": (grant.backbone, voucher.backbone),
        "grant's prices": (grant.price_table_hash, voucher.price_table_hash),
        "model": (grant.manifest_hash, voucher.manifest_hash),
        "price table": (voucher.price_table_hash, prices.content_hash),
        "price epoch": (voucher.price_epoch, prices.epoch),
    }
    for name, (signed, given) in expected.items():
        if signed != given:
            raise GrantRefused(f"receipt: {name} does not fit the voucher")


def _strict_json(text: str | bytes) -> Json:
    if len(text) > MAX_RECEIPT_BYTES:
        raise FormatRefused(f"receipt of {len(text)} bytes")
    try:
        document = json.loads(
            text,
            object_pairs_hook=_no_member_twice,
            parse_float=_no_number,
            parse_constant=_no_number,
        )
    except (ValueError, RecursionError) as exc:
        raise FormatRefused(f"receipt is no JSON: {exc}") from exc
    if not isinstance(document, dict):
        raise FormatRefused("receipt is no JSON object")
    return document


def _no_member_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise FormatRefused("receipt has a member twice")
    return members


def _no_number(text: str) -> object:
    raise FormatRefused(f"receipt has the number {text}")


def _section(document: Json, name: str) -> Json:
    section = document.get(name)
    if not isinstance(section, dict):
        raise FormatRefused(f"receipt: {name} is no object")
    return section


def _hex(section: Json, name: str) -> bytes:
    text = section.get(name)
    if not isinstance(text, str) or text != text.lower():
        raise FormatRefused(f"receipt: {name} is no lower-case hex")
    try:
        raw = bytes.fromhex(text)
    except ValueError as exc:
        raise FormatRefused(f"receipt: {name} is no hex") from exc
    if raw.hex() != text:
        raise FormatRefused(f"receipt: {name} has spaces")
    return raw


def _path(steps: object) -> tuple[Node, ...]:
    if not isinstance(steps, list) or len(steps) > 64:
        raise FormatRefused("receipt: proofs.sum_tree is no path")
    path: list[Node] = []
    for step in steps:
        if not isinstance(step, dict) or set(step) != {"hash", "sum_uc"}:
            raise FormatRefused("receipt: a step of the path has other members")
        hashed, total = _hex(step, "hash"), step["sum_uc"]
        is_sum = isinstance(total, str) and _SUM.fullmatch(total) is not None
        if len(hashed) != 32 or not is_sum:
            raise FormatRefused(f"receipt: step of the path with sum {total!r}")
        path.append(Node(hashed, int(total)))
    return tuple(path)
