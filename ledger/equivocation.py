r"""Proof that one signer signed two different vouchers of one key and number.

Contract: a proof is both vouchers' bytes as received, each with the accused signer's
own signature, and stands by itself: whoever has the bytes checks it offline. A worker
or backbone that signs one number once can never be accused. Signatures are no part of
a proof's name, so the same two bodies are one proof however often they were signed.
As a file:

    magic "PMEQ" | version u8 | signer 32
    | n_first u32 | first voucher | signature 64
    | n_second u32 | second voucher | signature 64

The first voucher is the one whose bytes sort lower. The name is SHA-256 over
`"p2pmoe/equivocation/v1\0" || signer || hash of the first || hash of the second`. Pure.
"""

import struct
from dataclasses import dataclass
from hashlib import sha256

from ledger.errors import FormatRefused, ProofRefused
from ledger.keys import KEY_BYTES, SIGNATURE_BYTES
from ledger.voucher import (
    MAX_VOUCHER_BYTES,
    SignedVoucher,
    Voucher,
    VoucherKey,
    equivocating_signers,
    verify_voucher,
    voucher_hash,
)

__all__ = [
    "EQUIVOCATION_DOMAIN",
    "MAX_PROOF_BYTES",
    "EquivocationProof",
    "Equivocator",
    "equivocations",
    "verify_equivocation",
]

EQUIVOCATION_DOMAIN = b"p2pmoe/equivocation/v1\0"
_MAGIC, _VERSION = b"PMEQ", 1
_HEAD = struct.Struct(">4sB32s")
_LENGTH = struct.Struct(">I")
_PART_BYTES = _LENGTH.size + MAX_VOUCHER_BYTES + SIGNATURE_BYTES
MAX_PROOF_BYTES = _HEAD.size + 2 * _PART_BYTES


@dataclass(frozen=True, slots=True)
class EquivocationProof:
    """Two vouchers and one signer's signature over each; not yet checked."""

    signer: bytes  # [32]
    first: bytes
    first_signature: bytes  # [64]
    second: bytes
    second_signature: bytes  # [64]

    @property
    def name(self) -> bytes:
        """The 32-byte name: of signer and bodies, whatever the signatures."""
        bodies = voucher_hash(self.first) + voucher_hash(self.second)
        return sha256(EQUIVOCATION_DOMAIN + self.signer + bodies).digest()

    def pack(self) -> bytes:
        """Return the bytes of a proof's file.

        Raises:
            FormatRefused: a key or signature of a wrong length.
        """
        lengths = (
            len(self.signer),
            len(self.first_signature),
            len(self.second_signature),
        )
        if lengths != (KEY_BYTES, SIGNATURE_BYTES, SIGNATURE_BYTES):
            raise FormatRefused(f"a proof with fields of {lengths} bytes")
        return b"".join(
            (
                _HEAD.pack(_MAGIC, _VERSION, self.signer),
                _LENGTH.pack(len(self.first)),
                self.first,
                self.first_signature,
                _LENGTH.pack(len(self.second)),
                self.second,
                self.second_signature,
            )
        )

    @staticmethod
    def parse(raw: bytes) -> "EquivocationProof":
        """Read a proof's file back.

        Raises:
            FormatRefused: wrong magic, version or lengths.
        """
        if not _HEAD.size <= len(raw) <= MAX_PROOF_BYTES:
            raise FormatRefused(f"a proof of {len(raw)} bytes")
        magic, version, signer = _HEAD.unpack_from(raw)
        if magic != _MAGIC or version != _VERSION:
            raise FormatRefused(f"no proof: magic {magic!r} version {version}")
        first, first_signature, at = _part(raw, _HEAD.size)
        second, second_signature, at = _part(raw, at)
        if at != len(raw):
            raise FormatRefused(f"a proof with {len(raw) - at} bytes too many")
        return EquivocationProof(
            signer, first, first_signature, second, second_signature
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivocator:
    """Who signed twice, and what."""

    signer: bytes  # [32]
    is_worker: bool  # else it is the backbone
    key: VoucherKey
    number: int


def equivocations(
    left: SignedVoucher, right: SignedVoucher
) -> tuple[EquivocationProof, ...]:
    """Return a proof against each signer that signed both of two vouchers.

    Empty where the two are the same or of different networks, keys or numbers.

    Raises:
        FormatRefused, AmountRefused: one of them does not parse.
    """
    one, other = sorted((left, right), key=lambda signed: signed.raw)
    voucher = Voucher.parse(one.raw)
    proofs = []
    for signer in equivocating_signers(one, other):
        by_worker = signer == voucher.worker
        proofs.append(
            EquivocationProof(
                signer,
                one.raw,
                one.worker_signature if by_worker else one.backbone_signature,
                other.raw,
                other.worker_signature if by_worker else other.backbone_signature,
            )
        )
    return tuple(proofs)


def verify_equivocation(proof: EquivocationProof, network: bytes) -> Equivocator:
    """Check a proof from its bytes alone.

    Args:
        proof: as received.
        network: the 32-byte id that both vouchers must name.

    Raises:
        ProofRefused: the vouchers are no two bodies of one key and number, in their
            order, of this network and this signer.
        FormatRefused, AmountRefused: a voucher does not parse.
        KeyRefused, SignatureRefused: a signature is not the signer's.
    """
    signer = proof.signer
    first, second = Voucher.parse(proof.first), Voucher.parse(proof.second)
    if proof.first >= proof.second:
        raise ProofRefused("not two vouchers in their order", peer=signer)
    if (first.key, first.number) != (second.key, second.number):
        raise ProofRefused(
            f"voucher {first.number} and {second.number} are of different tabs, "
            "price epochs or numbers",
            peer=signer,
        )
    if network not in (first.network, second.network):
        raise ProofRefused("vouchers of another network", peer=signer)
    if first.network != second.network:
        raise ProofRefused("vouchers of two networks", peer=signer)
    if signer not in (first.worker, first.backbone):
        raise ProofRefused("the accused is no party of the vouchers", peer=signer)
    verify_voucher(proof.first, proof.first_signature, signer)
    verify_voucher(proof.second, proof.second_signature, signer)
    return Equivocator(
        signer=signer,
        is_worker=signer == first.worker,
        key=first.key,
        number=first.number,
    )


def _part(raw: bytes, at: int) -> tuple[bytes, bytes, int]:
    """Return a voucher, its signature, and where the next part begins."""
    if at + _LENGTH.size > len(raw):
        raise FormatRefused("a proof that is cut off")
    (length,) = _LENGTH.unpack_from(raw, at)
    start = at + _LENGTH.size
    end = start + length + SIGNATURE_BYTES
    if length > MAX_VOUCHER_BYTES or end > len(raw):
        raise FormatRefused(f"a proof with a voucher of {length} bytes")
    return raw[start : start + length], raw[start + length : end], end
