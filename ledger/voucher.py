r"""The voucher: what one tab has earned so far, signed by worker and backbone.

Contract: cumulative within (worker, backbone, tab, price epoch); one canonical binary
encoding, named by its SHA-256 (signatures are no part of the name):

    magic "PMVO" | version u8 | network 32 | manifest_hash 32 | profile u8 | worker 32
    | backbone 32 | tab 8 | price_epoch u32 | number u32 | previous 32 | final u8
    | n_ranges u16 | n_ranges * (first u32, last u32) | leaves u32 | rows u64
    | amount_uc i64 | price_table_hash 32 | grant_hash 32 | root 32 | issued_us u64

Numbers start at 1; `previous` names the voucher before (zeros for the first). The
ranges are the accepted serving numbers, canonical, and hold exactly `leaves` of them.
`root` is the Merkle-sum root over their leaves by serving number. The worker signs
first, the backbone countersigns, both over `"p2pmoe/voucher/v1\0" || voucher`; only
bytes as received are verified. Pure: no store, no clock.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from ledger.amounts import check_amount
from ledger.errors import ChainRefused, FormatRefused, RemoteError
from ledger.keys import verify
from ledger.ranges import Ranges, count, is_canonical, subtract

__all__ = [
    "MAX_RANGES",
    "MAX_VOUCHER_BYTES",
    "NO_VOUCHER",
    "VOUCHER_DOMAIN",
    "SignedVoucher",
    "Voucher",
    "VoucherKey",
    "check_extends",
    "equivocating_signers",
    "sign_voucher",
    "verify_voucher",
    "voucher_hash",
]

VOUCHER_DOMAIN = b"p2pmoe/voucher/v1\0"
NO_VOUCHER = bytes(32)
MAX_RANGES = 4096  # a tab with more holes than this is closed and a new one begun
_MAGIC, _VERSION = b"PMVO", 1
_HEAD = struct.Struct(">4sB32s32sB32s32s8sII32sBH")
_RANGE = struct.Struct(">II")
_TAIL = struct.Struct(">IQq32s32s32sQ")
MAX_VOUCHER_BYTES = _HEAD.size + MAX_RANGES * _RANGE.size + _TAIL.size


@dataclass(frozen=True, slots=True, order=True)
class VoucherKey:
    """What a voucher is cumulative in; one current voucher exists for each."""

    worker: bytes  # [32]
    backbone: bytes  # [32]
    tab: bytes  # [8]
    price_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voucher:
    """The fields of a voucher, checked."""

    network: bytes  # [32]
    manifest_hash: bytes  # [32]
    profile: int  # u8
    worker: bytes  # [32]
    backbone: bytes  # [32]
    tab: bytes  # [8]
    price_epoch: int  # u32
    number: int  # u32, from 1
    previous: bytes  # [32]
    final: bool
    ranges: Ranges  # accepted serving numbers
    leaves: int
    rows: int
    amount_uc: int
    price_table_hash: bytes  # [32]
    grant_hash: bytes  # [32]
    root: bytes  # [32]
    issued_us: int  # microseconds since 1970 UTC

    def __post_init__(self) -> None:
        """Check the length or bound of every field and that they agree."""
        _check_lengths(self)
        check_amount(self.amount_uc, peer=self.worker)
        if not 1 <= self.number < 1 << 32:
            raise FormatRefused(f"voucher number {self.number}", peer=self.worker)
        if (self.previous == NO_VOUCHER) != (self.number == 1):
            raise FormatRefused(
                f"voucher {self.number} names previous {self.previous[:4].hex()}",
                peer=self.worker,
            )
        if self.rows >= 1 << 63 or not 0 <= self.issued_us < 1 << 63:
            raise FormatRefused(
                f"{self.rows} rows, issued at {self.issued_us}", peer=self.worker
            )
        if len(self.ranges) > MAX_RANGES or not is_canonical(self.ranges):
            raise FormatRefused("accepted ranges are not canonical", peer=self.worker)
        if count(self.ranges) != self.leaves or self.rows < self.leaves:
            raise FormatRefused(
                f"{self.leaves} leaves of {count(self.ranges)}, {self.rows} rows",
                peer=self.worker,
            )

    @property
    def key(self) -> VoucherKey:
        """Worker, backbone, tab and price epoch."""
        return VoucherKey(self.worker, self.backbone, self.tab, self.price_epoch)

    def pack(self) -> bytes:
        """Return the canonical bytes.

        Raises:
            FormatRefused: a number does not fit its field.
        """
        try:
            return b"".join(
                (
                    _HEAD.pack(
                        _MAGIC,
                        _VERSION,
                        self.network,
                        self.manifest_hash,
                        self.profile,
                        self.worker,
                        self.backbone,
                        self.tab,
                        self.price_epoch,
                        self.number,
                        self.previous,
                        self.final,
                        len(self.ranges),
                    ),
                    *(_RANGE.pack(*pair) for pair in self.ranges),
                    _TAIL.pack(
                        self.leaves,
                        self.rows,
                        self.amount_uc,
                        self.price_table_hash,
                        self.grant_hash,
                        self.root,
                        self.issued_us,
                    ),
                )
            )
        except struct.error as exc:
            raise FormatRefused(f"voucher {self.number}: {exc}") from exc

    @staticmethod
    def parse(raw: bytes) -> "Voucher":
        """Read canonical bytes back.

        Raises:
            FormatRefused: wrong magic, version, length, or fields that do not agree.
            AmountRefused: the amount is out of bounds.
        """
        if not _HEAD.size + _TAIL.size <= len(raw) <= MAX_VOUCHER_BYTES:
            raise FormatRefused(f"voucher of {len(raw)} bytes")
        magic, version, *head = _HEAD.unpack_from(raw)
        if magic != _MAGIC or version != _VERSION:
            raise FormatRefused(f"voucher: magic {magic!r} version {version}")
        final, n_ranges = head[9], head[10]
        end = _HEAD.size + n_ranges * _RANGE.size
        if len(raw) != end + _TAIL.size or final > 1:
            raise FormatRefused(f"voucher: {n_ranges} ranges in {len(raw)} bytes")
        tail = _TAIL.unpack_from(raw, end)
        return Voucher(
            network=head[0],
            manifest_hash=head[1],
            profile=head[2],
            worker=head[3],
            backbone=head[4],
            tab=head[5],
            price_epoch=head[6],
            number=head[7],
            previous=head[8],
            final=bool(final),
            ranges=tuple(_RANGE.iter_unpack(raw[_HEAD.size : end])),
            leaves=tail[0],
            rows=tail[1],
            amount_uc=tail[2],
            price_table_hash=tail[3],
            grant_hash=tail[4],
            root=tail[5],
            issued_us=tail[6],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedVoucher:
    """A voucher's bytes as received, with both signatures."""

    raw: bytes
    worker_signature: bytes  # [64]
    backbone_signature: bytes  # [64]

    def verified(self) -> Voucher:
        """Check both signatures over the received bytes and return the fields.

        Raises:
            FormatRefused, AmountRefused, KeyRefused, SignatureRefused: see there.
        """
        voucher = Voucher.parse(self.raw)
        verify_voucher(self.raw, self.worker_signature, voucher.worker)
        verify_voucher(self.raw, self.backbone_signature, voucher.backbone)
        return voucher


def voucher_hash(raw: bytes) -> bytes:
    """Return the 32-byte name of a voucher's bytes."""
    return sha256(raw).digest()


def sign_voucher(raw: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return a 64-byte signature (worker's or backbone's) over the packed voucher."""
    return sign(VOUCHER_DOMAIN + raw)


def verify_voucher(raw: bytes, signature: bytes, signer: bytes) -> None:
    """Check one signature over a voucher's bytes as received.

    Raises:
        KeyRefused, SignatureRefused: see `ledger.keys.verify`.
    """
    verify(signer, VOUCHER_DOMAIN, raw, signature)


def check_extends(previous: Voucher | None, following: Voucher) -> None:
    """Check that `following` may come after `previous` in one tab and epoch.

    A jump in numbers is allowed (vouchers between were never filed: they are
    cumulative); the link by hash is then checked by whoever holds those between.

    Raises:
        ChainRefused: another key or terms, a number not higher, a closed tab, a wrong
            link, or a set of servings or sums that does not grow.
    """
    if previous is None:
        return
    worker = following.worker
    if _terms(previous) != _terms(following):
        raise ChainRefused("voucher is of another tab, model or price", peer=worker)
    if following.number <= previous.number:
        raise ChainRefused(
            f"voucher {following.number} after {previous.number}", peer=worker
        )
    if previous.final:
        raise ChainRefused(f"tab was closed by {previous.number}", peer=worker)
    if following.number == previous.number + 1 and following.previous != voucher_hash(
        previous.pack()
    ):
        raise ChainRefused(
            f"voucher {following.number} does not name the one before", peer=worker
        )
    _check_growth(previous, following)


def equivocating_signers(
    left: SignedVoucher, right: SignedVoucher
) -> tuple[bytes, ...]:
    """Return who signed both of two different vouchers of one key and number.

    Empty when the two are the same, or of different networks, keys or numbers, or
    nobody's signature verifies on both.
    """
    one, other = Voucher.parse(left.raw), Voucher.parse(right.raw)
    names = [(each.network, each.key, each.number) for each in (one, other)]
    if left.raw == right.raw or names[0] != names[1]:
        return ()
    pairs = (
        (one.worker, left.worker_signature, right.worker_signature),
        (one.backbone, left.backbone_signature, right.backbone_signature),
    )
    return tuple(
        signer
        for signer, first, second in pairs
        if _signed(left.raw, first, signer) and _signed(right.raw, second, signer)
    )


def _signed(raw: bytes, signature: bytes, signer: bytes) -> bool:
    try:
        verify_voucher(raw, signature, signer)
    except RemoteError:
        return False
    return True


def _check_lengths(voucher: Voucher) -> None:
    thirty_two = (
        voucher.network,
        voucher.manifest_hash,
        voucher.worker,
        voucher.backbone,
        voucher.previous,
        voucher.price_table_hash,
        voucher.grant_hash,
        voucher.root,
    )
    if any(len(part) != 32 for part in thirty_two) or len(voucher.tab) != 8:
        raise FormatRefused("voucher: a key, hash or tab of a wrong length")


def _terms(voucher: Voucher) -> tuple[object, ...]:
    return (
        voucher.key,
        voucher.network,
        voucher.manifest_hash,
        voucher.profile,
        voucher.price_table_hash,
    )


def _check_growth(previous: Voucher, following: Voucher) -> None:
    if subtract(previous.ranges, following.ranges):
        raise ChainRefused("accepted servings are missing", peer=following.worker)
    if following.amount_uc < previous.amount_uc or following.rows < previous.rows:
        raise ChainRefused(
            f"{following.amount_uc} micro-credits after {previous.amount_uc}",
            peer=following.worker,
        )
    if following.issued_us < previous.issued_us:
        raise ChainRefused(
            "voucher is older than the one before", peer=following.worker
        )
