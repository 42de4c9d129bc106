"""Ed25519 keys of peers and relays: who someone is, and proof of it.

A peer *is* its 32-byte public key. A key is accepted only in canonical form (y < p), on
the curve, and not of small order: a small-order key verifies signatures that nobody
made (faults B39), so it can be nobody's identity. Every signed text begins with a
domain string of its own, so that no signature can be used in another place.

Keys rest in files of mode 0600 that hold the 32-byte seed as 64 hex digits.

Source: RFC 8032, sections 5.1.2, 5.1.3 and 5.1.7.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NewType

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from relay.errors import KeyFileError, WeakKey

__all__ = [
    "PEER_ID_BYTES",
    "SIGNATURE_BYTES",
    "PeerId",
    "SigningKey",
    "check_peer_id",
    "load_key",
    "load_or_create_key",
    "peer_id_from_hex",
    "short_id",
    "verify",
]

PeerId = NewType("PeerId", bytes)

PEER_ID_BYTES = 32
SIGNATURE_BYTES = 64

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_SIGN_BIT = 1 << 255
# y of the points of order 1, 2, 4 and 8; both signs of x are refused.
_Y8 = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    "little",
)
_SMALL_ORDER_Y = frozenset({0, 1, _P - 1, _Y8, _P - _Y8})


def check_peer_id(raw: bytes) -> PeerId:
    """Return `raw` as a peer id, or refuse it.

    Raises:
        WeakKey: not 32 bytes, not canonical, not on the curve, or of small order.
    """
    if len(raw) != PEER_ID_BYTES:
        raise WeakKey(f"a peer id has 32 bytes, not {len(raw)}")
    y = int.from_bytes(raw, "little") & (_SIGN_BIT - 1)
    if y >= _P:
        raise WeakKey(f"peer id {short_id(raw)} is not in canonical form")
    if y in _SMALL_ORDER_Y:
        raise WeakKey(f"peer id {short_id(raw)} is a key of small order")
    # x^2 = (y^2 - 1) / (d y^2 + 1) must be a square for the point to exist.
    x_squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    if pow(x_squared, (_P - 1) // 2, _P) != 1:
        raise WeakKey(f"peer id {short_id(raw)} is not a point of the curve")
    return PeerId(bytes(raw))


def peer_id_from_hex(text: str) -> PeerId:
    """Parse 64 hex digits into a peer id.

    Raises:
        WeakKey: not 64 hex digits, or not an acceptable key.
    """
    try:
        raw = bytes.fromhex(text)
    except ValueError as exc:
        raise WeakKey(f"a peer id is 64 hex digits, not {text[:80]!r}") from exc
    return check_peer_id(raw)


def short_id(raw: bytes) -> str:
    """Return the first 8 hex digits, the form in which ids appear in logs."""
    return raw[:4].hex()


def verify(peer_id: bytes, message: bytes, signature: bytes) -> bool:
    """Tell whether `signature` (64 bytes) of `message` was made by this peer's key.

    The id must have passed `check_peer_id` before: this does not repeat it.
    """
    try:
        Ed25519PublicKey.from_public_bytes(peer_id).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """An Ed25519 key pair. `seed` is secret: it is never printed or logged."""

    peer_id: PeerId
    _private: Ed25519PrivateKey

    @classmethod
    def from_seed(cls, seed: bytes) -> "SigningKey":
        """Build the key pair of a 32-byte seed (RFC 8032, section 5.1.5)."""
        private = Ed25519PrivateKey.from_private_bytes(seed)
        return cls(PeerId(private.public_key().public_bytes_raw()), private)

    @classmethod
    def generate(cls) -> "SigningKey":
        """Make a new key pair from the system's random source."""
        return cls.from_seed(os.urandom(32))

    @property
    def private(self) -> Ed25519PrivateKey:
        """The private key object, for an X.509 certificate of this identity."""
        return self._private

    @property
    def seed(self) -> bytes:
        """The 32 secret bytes."""
        return self._private.private_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature of `message`."""
        return self._private.sign(message)

    def __repr__(self) -> str:
        return f"SigningKey({short_id(self.peer_id)})"


def load_key(path: Path) -> SigningKey:
    """Read a key file.

    Raises:
        KeyFileError: the file is missing, unreadable, or holds no key.
    """
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "not a text file"
        raise KeyFileError(f"cannot read key file {path}: {reason.lower()}") from exc
    try:
        seed = bytes.fromhex(text)
    except ValueError as exc:
        raise KeyFileError(f"key file {path} does not hold hex digits") from exc
    if len(seed) != 32:
        raise KeyFileError(f"key file {path} holds {len(seed)} bytes, not 32")
    return SigningKey.from_seed(seed)


def load_or_create_key(path: Path) -> SigningKey:
    """Read a key file, or make a new key and write it (mode 0600, never half-written).

    Raises:
        KeyFileError: the file holds no key, or cannot be read or written.
    """
    if path.exists():
        return load_key(path)
    key = SigningKey.generate()
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(key.seed.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        # A link, not a rename: whoever comes second reads the first one's key.
        os.link(draft, path)
    except FileExistsError:
        return load_key(path)
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise KeyFileError(f"cannot write key file {path}: {reason}") from exc
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return key
