r"""Who asks for their own accounts: a signed challenge, then a token for an hour.

Contract: pure, and stateless but for a secret: nothing is kept of who asked. A
challenge is valid for two minutes, and a signature over it, with a peer's key, opens a
session for that peer alone, which may read and change nothing. What is signed names
network and ledger, so that a signature made for one ledger opens nothing at another:

    "p2pmoe/ledger-login/v1\0" || network 32 || ledger 32 || challenge

    challenge = expires_us u64 | random 16 | mac 16       session = peer 32 |
    expires_us u64 | mac 32         each in base64url without padding

The macs are HMAC-SHA256 (cut) under the secret, each with a name of its own.
"""

import base64
import binascii
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from ledger.errors import RemoteError
from ledger.keys import KEY_BYTES, verify

__all__ = ["LOGIN_DOMAIN", "Logins", "decode", "encode", "login_body"]

LOGIN_DOMAIN = b"p2pmoe/ledger-login/v1\0"
_CHALLENGE_US = 120 * 1_000_000
_SESSION_US = 3600 * 1_000_000
_TIME_BYTES, _RANDOM_BYTES, _CUT = 8, 16, 16
_MAC_BYTES = 32
_MAX_TEXT = 256


def encode(raw: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decode(text: str, n_bytes: int) -> bytes | None:
    """Return the bytes of a base64url text of exactly `n_bytes`, else None."""
    if len(text) > _MAX_TEXT or not text.isascii():
        return None
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == n_bytes and encode(raw) == text else None


def login_body(network: bytes, ledger: bytes, challenge: str) -> bytes:
    """Return what is signed behind `LOGIN_DOMAIN`."""
    return network + ledger + challenge.encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Logins:
    """Makes challenges, and sessions of those who signed one."""

    network: bytes  # [32]
    ledger: bytes  # [32]
    secret: bytes
    wall_us: Callable[[], int]
    random: Callable[[int], bytes]

    def challenge(self) -> str:
        """Return a fresh challenge."""
        expires = (self.wall_us() + _CHALLENGE_US).to_bytes(_TIME_BYTES, "big")
        body = expires + self.random(_RANDOM_BYTES)
        return encode(body + self._mac(b"challenge", body)[:_CUT])

    def open(self, peer: bytes, challenge: str, signature: bytes) -> str | None:
        """Return a session's token; None if the challenge or signature is no good."""
        raw = decode(challenge, _TIME_BYTES + _RANDOM_BYTES + _CUT)
        if raw is None:
            return None
        body, mac = raw[:-_CUT], raw[-_CUT:]
        if not hmac.compare_digest(mac, self._mac(b"challenge", body)[:_CUT]):
            return None
        if self._is_over(body[:_TIME_BYTES]):
            return None
        signed = login_body(self.network, self.ledger, challenge)
        try:
            verify(peer, LOGIN_DOMAIN, signed, signature)
        except RemoteError:
            return None
        return self._session(peer)

    def peer_of(self, session: str) -> bytes | None:
        """Return whose session a token is; None if it is none, or over."""
        raw = decode(session, KEY_BYTES + _TIME_BYTES + _MAC_BYTES)
        if raw is None:
            return None
        body, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(b"session", body)):
            return None
        return None if self._is_over(body[KEY_BYTES:]) else body[:KEY_BYTES]

    def _session(self, peer: bytes) -> str:
        body = peer + (self.wall_us() + _SESSION_US).to_bytes(_TIME_BYTES, "big")
        return encode(body + self._mac(b"session", body))

    def _is_over(self, expires: bytes) -> bool:
        return self.wall_us() >= int.from_bytes(expires, "big")

    def _mac(self, name: bytes, body: bytes) -> bytes:
        return hmac.digest(self.secret, name + b"\0" + body, "sha256")
