"""Ed25519 account keys: weak ones refused, signatures checked over received bytes.

Contract: an account is a 32-byte Ed25519 public key. `parse_key` refuses encodings
that are not canonical (y >= p), points off the curve, and the eight points of small
order, under which one signature can fit many messages. `verify` prefixes a domain
string ending in NUL, so that a signature made for one purpose never fits another.
S >= L is refused by the library. Verification is single and cofactorless, never
batched: every party decides alike. Nothing here signs: signers are passed in.

Specification: RFC 8032, section 5.1; small-order points after "Taming the many
EdDSAs" (Chalkias, Garillot, Nikolaenko, 2020), table 1.
"""

from functools import lru_cache
from typing import NewType

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ledger.errors import KeyRefused, SignatureRefused

__all__ = [
    "KEY_BYTES",
    "SIGNATURE_BYTES",
    "AccountKey",
    "parse_key",
    "short",
    "verify",
]

AccountKey = NewType("AccountKey", bytes)

KEY_BYTES = 32
SIGNATURE_BYTES = 64

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_Y_ORDER_8 = (
    2707385501144840649318225287225658788936804267575313519463743609750303402022
)
# y of all eight points whose order divides 8.
_SMALL_ORDER_Y = frozenset({0, 1, _P - 1, _Y_ORDER_8, _P - _Y_ORDER_8})


def parse_key(raw: bytes) -> AccountKey:
    """Return `raw` as an account key.

    Raises:
        KeyRefused: wrong length, non-canonical, off the curve, or of small order.
    """
    _public_key(bytes(raw))
    return AccountKey(bytes(raw))


def verify(key: bytes, domain: bytes, message: bytes, signature: bytes) -> None:
    """Check that `signature` is by `key` over `domain + message`.

    Args:
        key: 32-byte Ed25519 public key.
        domain: purpose of the signature, ending in NUL.
        message: the bytes exactly as received.
        signature: 64 bytes.

    Raises:
        KeyRefused: the key is weak or malformed.
        SignatureRefused: the signature does not verify.
    """
    public_key = _public_key(bytes(key))
    if len(signature) != SIGNATURE_BYTES:
        raise SignatureRefused(f"signature of {len(signature)} bytes", peer=key)
    try:
        public_key.verify(bytes(signature), domain + message)
    except InvalidSignature as exc:
        purpose = domain.rstrip(b"\0").decode("ascii", "replace")
        raise SignatureRefused(
            f"signature of {short(key)} does not verify for {purpose}", peer=key
        ) from exc


def short(identity: bytes) -> str:
    """Return the first 8 hex digits, as ids are shown in messages and logs."""
    return bytes(identity[:4]).hex()


@lru_cache(maxsize=8192)
def _public_key(raw: bytes) -> Ed25519PublicKey:
    if len(raw) != KEY_BYTES:
        raise KeyRefused(f"public key of {len(raw)} bytes, expected {KEY_BYTES}")
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if y >= _P:
        raise KeyRefused(f"public key {short(raw)} is not canonical")
    if y in _SMALL_ORDER_Y:
        raise KeyRefused(f"public key {short(raw)} is of small order")
    # x^2 = (y^2 - 1) / (d y^2 + 1) has a root: u v is a square (Euler's criterion).
    u, v = (y * y - 1) % _P, (_D * y * y + 1) % _P
    if pow(u * v, (_P - 1) // 2, _P) != 1:
        raise KeyRefused(f"public key {short(raw)} is not on the curve")
    return Ed25519PublicKey.from_public_bytes(raw)
