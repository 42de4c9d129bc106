r"""The two papers of a dispute: a signed claim about one leaf, and the signed answer.

Contract: a leaf names what went in and what came out by hashes, so whoever disputes it
opens its own half, and the other the other half; bytes that do not have the leaf's
hash open nothing. A backbone claims WRONG_RESULTS and opens the rows that it sent; the
worker's answer opens the results. A worker claims UNKNOWN_ROWS and opens the results
that it gave; the backbone's answer opens the rows. With the rows, anyone who holds the
expert can recompute the results: the referee does, and so can an honest worker that
kept nothing. Both papers have one canonical encoding and are named by their SHA-256:

    claim   magic "PMDC" | version u8 | network 32 | voucher 32 | reason u8
            | issued_us u64 | leaf 79 | opener 32 | opening
    answer  magic "PMDA" | version u8 | network 32 | claim 32 | issued_us u64
            | respondent 32 | opening
    opening half u8 | n_bytes u32 | bytes

`voucher` is the content hash of the voucher that closed the tab. `half` is 0 for
results, 1 for rows; the opened bytes are what `out_hash` or `x_hash` is taken over,
nothing else: what rows consist of follows from their length alone, so that nobody can
have them read as something they were not. Signed bytes:
`"p2pmoe/dispute-claim/v1\0" || claim`, `"p2pmoe/dispute-answer/v1\0" || answer`. As a
file: the paper, then the 64-byte signature. Pure; only received bytes are verified.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256

from ledger.errors import FormatRefused, ProofRefused
from ledger.keys import KEY_BYTES, SIGNATURE_BYTES, verify
from ledger.leaf import LEAF_BYTES, Leaf

__all__ = [
    "ANSWER_DOMAIN",
    "CLAIM_DOMAIN",
    "MAX_OPENING_BYTES",
    "MAX_PAPER_BYTES",
    "DisputeAnswer",
    "DisputeClaim",
    "Half",
    "Opening",
    "Reason",
    "sign_dispute_answer",
    "sign_dispute_claim",
    "split_paper",
    "verify_dispute_answer",
    "verify_dispute_claim",
]

CLAIM_DOMAIN = b"p2pmoe/dispute-claim/v1\0"
ANSWER_DOMAIN = b"p2pmoe/dispute-answer/v1\0"
MAX_OPENING_BYTES = 4 << 20
_CLAIM_MAGIC, _ANSWER_MAGIC, _VERSION = b"PMDC", b"PMDA", 1
_CLAIM = struct.Struct(f">4sB32s32sBQ{LEAF_BYTES}s32s")
_ANSWER = struct.Struct(">4sB32s32sQ32s")
_OPENING = struct.Struct(">BI")
MAX_PAPER_BYTES = _CLAIM.size + _OPENING.size + MAX_OPENING_BYTES + SIGNATURE_BYTES
_MAX_US = 1 << 63
_HASH_BYTES = 16


class Reason(IntEnum):
    """What is claimed about a leaf."""

    WRONG_RESULTS = 1  # by the backbone: not what the expert makes of these rows
    UNKNOWN_ROWS = 2  # by the worker: show the rows that these results are of


class Half(IntEnum):
    """Which half of a leaf is opened."""

    RESULTS = 0  # what came out: out_hash
    ROWS = 1  # what went in: x_hash


@dataclass(frozen=True, slots=True)
class Opening:
    """The bytes that one hash of a leaf is taken over."""

    half: Half
    raw: bytes

    def __post_init__(self) -> None:
        """Check the bound."""
        if not 0 < len(self.raw) <= MAX_OPENING_BYTES:
            raise FormatRefused(
                f"{len(self.raw)} opened bytes, from 1 to {MAX_OPENING_BYTES}"
            )

    def check(self, leaf: Leaf) -> None:
        """Check that the bytes open this half of the leaf.

        Raises:
            ProofRefused: they have another hash.
        """
        is_results = self.half is Half.RESULTS
        wanted = leaf.out_hash if is_results else leaf.x_hash
        found = sha256(self.raw).digest()[:_HASH_BYTES]
        if found != wanted:
            raise ProofRefused(
                f"the opened {self.half.name.lower()} have hash {found.hex()}, "
                f"serving {leaf.serving} has {wanted.hex()}"
            )

    def pack(self) -> bytes:
        """Return the canonical bytes."""
        return _OPENING.pack(self.half, len(self.raw)) + self.raw

    @staticmethod
    def parse(raw: bytes) -> "Opening":
        """Read canonical bytes back.

        Raises:
            FormatRefused: an unknown half, or another length than is said.
        """
        if len(raw) < _OPENING.size:
            raise FormatRefused(f"an opening of {len(raw)} bytes")
        half, length = _OPENING.unpack_from(raw)
        opened = raw[_OPENING.size :]
        if half not in list(Half) or length != len(opened):
            raise FormatRefused(f"half {half}, {length} bytes in {len(opened)}")
        return Opening(Half(half), opened)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputeClaim:
    """What someone claims about one leaf of a closed voucher."""

    network: bytes  # [32]
    voucher: bytes  # [32] content hash of the closing voucher
    reason: Reason
    issued_us: int
    leaf: Leaf
    opener: bytes  # [32]
    opening: Opening

    def __post_init__(self) -> None:
        """Check lengths, time, and that the right half is opened, by its hash.

        Raises:
            FormatRefused, ProofRefused: they do not fit.
        """
        _check_keys(self.network, self.voucher, self.opener)
        _check_time(self.issued_us)
        opens_rows = self.opening.half is Half.ROWS
        if opens_rows != (self.reason is Reason.WRONG_RESULTS):
            raise FormatRefused(
                f"{self.reason.name} with opened {self.opening.half.name}",
                peer=self.opener,
            )
        self.opening.check(self.leaf)

    @property
    def content_hash(self) -> bytes:
        """SHA-256 of the canonical bytes: the claim's name in the answer."""
        return sha256(self.pack()).digest()

    def pack(self) -> bytes:
        """Return the canonical bytes."""
        head = _CLAIM.pack(
            _CLAIM_MAGIC,
            _VERSION,
            self.network,
            self.voucher,
            self.reason,
            self.issued_us,
            self.leaf.pack(),
            self.opener,
        )
        return head + self.opening.pack()

    @staticmethod
    def parse(raw: bytes) -> "DisputeClaim":
        """Read canonical bytes back.

        Raises:
            FormatRefused: wrong magic, version, length or a field out of bounds.
            ProofRefused: the opened bytes have another hash than the leaf says.
        """
        if not _CLAIM.size < len(raw) <= MAX_PAPER_BYTES:
            raise FormatRefused(f"a claim of {len(raw)} bytes")
        magic, version, *fields = _CLAIM.unpack_from(raw)
        _check_kind("claim", magic, _CLAIM_MAGIC, version)
        if fields[2] not in list(Reason):
            raise FormatRefused(f"a claim for reason {fields[2]}")
        return DisputeClaim(
            network=fields[0],
            voucher=fields[1],
            reason=Reason(fields[2]),
            issued_us=fields[3],
            leaf=Leaf.parse(fields[4]),
            opener=fields[5],
            opening=Opening.parse(raw[_CLAIM.size :]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputeAnswer:
    """The other side's half of the leaf that a claim is about."""

    network: bytes  # [32]
    claim: bytes  # [32] the claim's name
    issued_us: int
    respondent: bytes  # [32]
    opening: Opening

    def __post_init__(self) -> None:
        """Check lengths and time."""
        _check_keys(self.network, self.claim, self.respondent)
        _check_time(self.issued_us)

    def check(self, claim: DisputeClaim) -> None:
        """Check that this opens the half that the claim left closed.

        Raises:
            ProofRefused: it answers another claim, or opens the wrong bytes.
        """
        peer = self.respondent
        if self.claim != claim.content_hash or self.network != claim.network:
            raise ProofRefused("the answer is to another claim", peer=peer)
        if self.opening.half is claim.opening.half:
            raise ProofRefused("the answer opens the half that is open", peer=peer)
        self.opening.check(claim.leaf)

    def pack(self) -> bytes:
        """Return the canonical bytes."""
        head = _ANSWER.pack(
            _ANSWER_MAGIC,
            _VERSION,
            self.network,
            self.claim,
            self.issued_us,
            self.respondent,
        )
        return head + self.opening.pack()

    @staticmethod
    def parse(raw: bytes) -> "DisputeAnswer":
        """Read canonical bytes back.

        Raises:
            FormatRefused: wrong magic, version, length or a field out of bounds.
        """
        if not _ANSWER.size < len(raw) <= MAX_PAPER_BYTES:
            raise FormatRefused(f"an answer of {len(raw)} bytes")
        magic, version, *fields = _ANSWER.unpack_from(raw)
        _check_kind("answer", magic, _ANSWER_MAGIC, version)
        return DisputeAnswer(
            network=fields[0],
            claim=fields[1],
            issued_us=fields[2],
            respondent=fields[3],
            opening=Opening.parse(raw[_ANSWER.size :]),
        )


def sign_dispute_claim(raw: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the opener's 64-byte signature over a packed claim."""
    return sign(CLAIM_DOMAIN + raw)


def sign_dispute_answer(raw: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the respondent's 64-byte signature over a packed answer."""
    return sign(ANSWER_DOMAIN + raw)


def verify_dispute_claim(raw: bytes, signature: bytes) -> DisputeClaim:
    """Read a claim and check its opener's signature over the bytes as received.

    Raises:
        FormatRefused, ProofRefused, KeyRefused, SignatureRefused: see there.
    """
    claim = DisputeClaim.parse(raw)
    verify(claim.opener, CLAIM_DOMAIN, raw, signature)
    return claim


def verify_dispute_answer(raw: bytes, signature: bytes) -> DisputeAnswer:
    """Read an answer and check its signature over the bytes as received.

    Raises:
        FormatRefused, KeyRefused, SignatureRefused: see there.
    """
    answer = DisputeAnswer.parse(raw)
    verify(answer.respondent, ANSWER_DOMAIN, raw, signature)
    return answer


def split_paper(file: bytes) -> tuple[bytes, bytes]:
    """Cut a paper's file into its bytes and the signature.

    Raises:
        FormatRefused: it is shorter or longer than any paper.
    """
    if not SIGNATURE_BYTES < len(file) <= MAX_PAPER_BYTES:
        raise FormatRefused(f"a paper of {len(file)} bytes")
    return file[:-SIGNATURE_BYTES], file[-SIGNATURE_BYTES:]


def _check_keys(*keys: bytes) -> None:
    if any(len(key) != KEY_BYTES for key in keys):
        lengths = tuple(len(key) for key in keys)
        raise FormatRefused(f"fields of {lengths} bytes, expected {KEY_BYTES} each")


def _check_time(issued_us: int) -> None:
    if not 0 <= issued_us < _MAX_US:
        raise FormatRefused(f"a paper issued at {issued_us}")


def _check_kind(kind: str, magic: bytes, wanted: bytes, version: int) -> None:
    if magic != wanted or version != _VERSION:
        raise FormatRefused(f"no {kind}: magic {magic!r} version {version}")
