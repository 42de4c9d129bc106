"""The Noise handshakes IK and XX with 25519, AESGCM and SHA256; nothing else of Noise.

A `NoiseHandshake` is fed and asked for messages in turn; when it is `finished`, `split`
gives the two transport keys and `handshake_hash` names the session. Ephemeral keys are
passed in by the caller, who draws a fresh one for each handshake.

Source: The Noise Protocol Framework, revision 34, sections 5 and 7.
"""

import hashlib
import hmac
from enum import Enum
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mobile_worker.errors import HandshakeError

__all__ = ["DH_BYTES", "TAG_BYTES", "NoiseHandshake", "Pattern"]

DH_BYTES: Final = 32
TAG_BYTES: Final = 16
_MAX_NOISE_BYTES = 65_535


class Pattern(Enum):
    """The two patterns: what each message does, in order."""

    IK = (("e", "es", "s", "ss"), ("e", "ee", "se"))
    XX = (("e",), ("e", "ee", "s", "es"), ("s", "se"))

    @property
    def protocol_name(self) -> bytes:
        """The full name that is hashed into the handshake."""
        return f"Noise_{self.name}_25519_AESGCM_SHA256".encode()


class NoiseHandshake:
    """One side of one handshake (HandshakeState with its SymmetricState)."""

    def __init__(
        self,
        pattern: Pattern,
        *,
        initiator: bool,
        prologue: bytes,
        keys: tuple[X25519PrivateKey, X25519PrivateKey],
        remote_static: bytes | None = None,
    ) -> None:
        """Begin. `keys`: our static and our ephemeral one.

        `remote_static`: 32 bytes, which the initiator of IK must know.
        """
        self._messages = pattern.value
        self._initiator = initiator
        self._static, self._ephemeral = keys
        self._remote_static = remote_static
        self._remote_ephemeral: bytes | None = None
        self._n_done = 0
        name = pattern.protocol_name
        self._hash = name.ljust(32, b"\0") if len(name) <= 32 else _sha256(name)
        self._chaining_key = self._hash
        self._cipher: AESGCM | None = None
        self._nonce = 0
        self._mix_hash(prologue)
        if pattern is Pattern.IK:
            responder = remote_static if initiator else _public(self._static)
            if responder is None:
                raise HandshakeError("IK needs the responder's static key")
            self._mix_hash(responder)

    @property
    def finished(self) -> bool:
        """Whether all messages of the pattern have passed."""
        return self._n_done == len(self._messages)

    @property
    def handshake_hash(self) -> bytes:
        """32 bytes that name the session, once finished."""
        return self._hash

    @property
    def remote_static(self) -> bytes | None:
        """The static key of the other side, once it is known."""
        return self._remote_static

    def write(self, payload: bytes) -> bytes:
        """Return our next message with this payload."""
        self._check_turn(ours=True)
        parts = []
        for step in self._messages[self._n_done]:
            if step == "e":
                public = _public(self._ephemeral)
                self._mix_hash(public)
                parts.append(public)
            elif step == "s":
                parts.append(self._encrypt_and_hash(_public(self._static)))
            else:
                self._mix_dh(step)
        parts.append(self._encrypt_and_hash(payload))
        self._n_done += 1
        return b"".join(parts)

    def read(self, message: bytes) -> bytes:
        """Take the other side's next message and return its payload.

        Raises:
            HandshakeError: it is out of turn, cut short or does not decrypt. The
                handshake cannot be continued then.
        """
        self._check_turn(ours=False)
        if len(message) > _MAX_NOISE_BYTES:
            raise HandshakeError(f"a handshake message of {len(message)} bytes")
        at = 0
        for step in self._messages[self._n_done]:
            if step in ("e", "s"):
                n = DH_BYTES + (TAG_BYTES if step == "s" and self._cipher else 0)
                raw, at = message[at : at + n], at + n
                if len(raw) < n:
                    raise HandshakeError("a handshake message is cut short")
                if step == "e":
                    self._mix_hash(raw)
                    self._remote_ephemeral = raw
                else:
                    self._remote_static = self._decrypt_and_hash(raw)
            else:
                self._mix_dh(step)
        payload = self._decrypt_and_hash(message[at:])
        self._n_done += 1
        return payload

    def split(self) -> tuple[bytes, bytes]:
        """Return our sending and our receiving key, 32 bytes each."""
        if not self.finished:
            raise HandshakeError("the handshake is not finished")
        first, second = _hkdf(self._chaining_key, b"")
        return (first, second) if self._initiator else (second, first)

    def _check_turn(self, *, ours: bool) -> None:
        writes = (self._n_done % 2 == 0) == self._initiator
        if self.finished or writes is not ours:
            raise HandshakeError("a handshake message out of turn")

    def _mix_dh(self, step: str) -> None:
        # The first letter is the initiator's key, the second the responder's.
        ours, theirs = (step[0], step[1]) if self._initiator else (step[1], step[0])
        private = self._ephemeral if ours == "e" else self._static
        public = self._remote_ephemeral if theirs == "e" else self._remote_static
        if public is None:
            raise HandshakeError("a key of the other side is missing")
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise HandshakeError("a key of small order") from error
        self._chaining_key, key = _hkdf(self._chaining_key, shared)
        self._cipher = AESGCM(key)
        self._nonce = 0

    def _mix_hash(self, piece: bytes) -> None:
        self._hash = _sha256(self._hash + piece)

    def _encrypt_and_hash(self, plaintext: bytes) -> bytes:
        if self._cipher is None:
            sealed = plaintext
        else:
            sealed = self._cipher.encrypt(self._next_nonce(), plaintext, self._hash)
        self._mix_hash(sealed)
        return sealed

    def _decrypt_and_hash(self, sealed: bytes) -> bytes:
        if self._cipher is None:
            plaintext = sealed
        else:
            try:
                nonce = self._next_nonce()
                plaintext = self._cipher.decrypt(nonce, sealed, self._hash)
            except (InvalidTag, ValueError) as error:
                raise HandshakeError("a handshake message does not open") from error
        self._mix_hash(sealed)
        return plaintext

    def _next_nonce(self) -> bytes:
        nonce = bytes(4) + self._nonce.to_bytes(8, "big")
        self._nonce += 1
        return nonce


def _sha256(piece: bytes) -> bytes:
    return hashlib.sha256(piece).digest()


def _public(private: X25519PrivateKey) -> bytes:
    return private.public_key().public_bytes_raw()


def _hkdf(chaining_key: bytes, material: bytes) -> tuple[bytes, bytes]:
    temporary = hmac.digest(chaining_key, material, "sha256")
    first = hmac.digest(temporary, b"\x01", "sha256")
    return first, hmac.digest(temporary, first + b"\x02", "sha256")
