r"""Challenge and proof: how a peer and a relay convince each other. No I/O in here.

    relay -> peer   CHALLENGE(relay id, nonce)
    peer  -> relay  AUTH(id, client nonce, role, caps, token, signature over
                    "p2pmoe relay auth v1\0" || relay id || u16 length and host of the
                    URL || nonce || id || client nonce || role || caps || sha256(token))
    relay -> peer   WELCOME(session, limits, ..., signature over
                    "p2pmoe relay welcome v1\0" || nonce || client nonce || id ||
                    session || sha256(26 B limits) || sha256(descriptor))
                    or DENY(code, text)

Relay id and host in the peer's signature stop a rogue relay from passing it on; the
fresh nonce stops a replay, so that no clock needs to be right. The relay's signature
covers both nonces: it too must hold its key now. Observed address, map version, skew
and resume ticket are hints and not signed.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from relay.errors import (
    HandshakeRefused,
    RelayBusy,
    TokenRefused,
    WeakKey,
    WrongRelayId,
)
from relay.frames import pack_limits
from relay.greetings import Auth, Challenge, Deny, DenyCode, Welcome
from relay.keys import PeerId, check_peer_id, short_id, verify
from relay.revocations import Revocations, token_hash
from relay.tokens import (
    NetworkToken,
    RateClass,
    Role,
    TokenFault,
    Visit,
    check_token,
)

__all__ = [
    "Admitted",
    "Credentials",
    "Gatekeeper",
    "answer_challenge",
    "check_welcome",
    "client_nonce",
    "denial_error",
    "sign_welcome",
]

_AUTH_DOMAIN: Final = b"p2pmoe relay auth v1\0"
_WELCOME_DOMAIN: Final = b"p2pmoe relay welcome v1\0"

_MAX_LEASE_S: Final = 2**32 - 1
_FAULT_CODES: Final = {
    TokenFault.MISSING: DenyCode.TOKEN_MISSING,
    TokenFault.MALFORMED: DenyCode.TOKEN_MALFORMED,
    TokenFault.FOREIGN: DenyCode.TOKEN_FOREIGN,
    TokenFault.FORGED: DenyCode.TOKEN_FORGED,
    TokenFault.EXPIRED: DenyCode.TOKEN_EXPIRED,
    TokenFault.NOT_YOURS: DenyCode.TOKEN_NOT_YOURS,
    TokenFault.OTHER_RELAY: DenyCode.TOKEN_OTHER_RELAY,
    TokenFault.OTHER_ROLE: DenyCode.TOKEN_OTHER_ROLE,
    TokenFault.REVOKED: DenyCode.TOKEN_REVOKED,
    TokenFault.PEER_REVOKED: DenyCode.PEER_REVOKED,
}
_TOKEN_ADVICE: Final = {
    DenyCode.TOKEN_MISSING: "ask the operator for an invite, and name it with --invite",
    DenyCode.TOKEN_MALFORMED: "the token must be copied whole",
    DenyCode.TOKEN_FOREIGN: "use the token of the network this relay belongs to",
    DenyCode.TOKEN_FORGED: "the token must be copied whole, or asked for anew",
    DenyCode.TOKEN_EXPIRED: "ask the network's operator for a new token",
    DenyCode.TOKEN_NOT_YOURS: "ask for a token for this peer's own id",
    DenyCode.TOKEN_OTHER_RELAY: "use the relay that the token was made for",
    DenyCode.TOKEN_OTHER_ROLE: "ask for a token for this role",
    DenyCode.TOKEN_REVOKED: "ask the network's operator for a new token",
    DenyCode.PEER_REVOKED: "ask the network's operator why",
}
_OPEN_RATE_CLASSES: Final = {
    Role.WORKER: RateClass.LAPTOP,
    Role.CLIENT: RateClass.LAPTOP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who we are at a relay. `sign` makes a 64-byte Ed25519 signature of its text.

    `ticket`: of the last welcome of the very relay that is joined, if there was one.
    """

    peer_id: PeerId
    sign: Callable[[bytes], bytes]
    role: Role
    token: bytes = b""
    caps: int = 0
    ticket: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A peer that proved itself. `rate_class` decides its limits.

    `lease_s`: seconds that its token still holds, 0: without end. `token_hash`: by
    which the token is revoked. `is_market`: the network itself names it so.
    """

    peer_id: PeerId
    role: Role
    rate_class: RateClass
    caps: int
    client_nonce: bytes
    skew_us: int
    lease_s: int = 0
    token_hash: bytes = b""
    is_market: bool = False


def client_nonce(wall_us: int, random_bytes: bytes) -> bytes:
    """Build the peer's nonce of its wall clock and 8 random bytes."""
    wall_ms = min(max(wall_us // 1000, 0), 2**64 - 1)
    return wall_ms.to_bytes(8, "big") + random_bytes


def _auth_text(auth: Auth, challenge: Challenge, host: str) -> bytes:
    name = host.encode()
    return b"".join(
        (
            _AUTH_DOMAIN,
            challenge.relay_id,
            len(name).to_bytes(2, "big"),
            name,
            challenge.nonce,
            auth.peer_id,
            auth.client_nonce,
            auth.role.to_bytes(1, "big"),
            auth.caps.to_bytes(4, "big"),
            hashlib.sha256(auth.token).digest(),
        )
    )


def answer_challenge(
    challenge: Challenge, credentials: Credentials, host: str, nonce: bytes
) -> Auth:
    """Make the AUTH that answers this challenge of the relay at `host`."""
    unsigned = Auth(
        peer_id=credentials.peer_id,
        client_nonce=nonce,
        role=credentials.role,
        caps=credentials.caps,
        token=credentials.token,
        signature=b"",
    )
    text = _auth_text(unsigned, challenge, host)
    return replace(unsigned, signature=credentials.sign(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gatekeeper:
    """The relay's rules of admission.

    `network` None: the relay is open to anybody with a key. `hosts`: the names this
    relay answers to; empty accepts the name the request was made for. `market`: the
    network's, None for none. `revoked` returns what the network has revoked by now.
    """

    relay_id: PeerId
    network: PeerId | None
    hosts: frozenset[str] = frozenset()
    market: PeerId | None = None
    revoked: Callable[[], Revocations] = Revocations

    def judge(
        self, auth: Auth, challenge: Challenge, host: str, wall_us: int
    ) -> Admitted | Deny:
        """Admit or deny; `host` is the request's, `wall_us` the relay's clock now."""
        try:
            peer_id, role = check_peer_id(auth.peer_id), Role(auth.role)
        except WeakKey as exc:
            return _deny(DenyCode.BAD_KEY, str(exc))
        except ValueError:
            return _deny(DenyCode.TOKEN_OTHER_ROLE, f"role {auth.role} is unknown")
        if self.hosts and host not in self.hosts:
            return _deny(DenyCode.WRONG_HOST, f"this relay is not {host!r}")
        text = _auth_text(auth, challenge, host)
        if not verify(peer_id, text, auth.signature):
            return _deny(DenyCode.BAD_SIGNATURE, "the proof of the key is wrong")
        visit = Visit(
            peer_id=peer_id, relay_id=self.relay_id, role=role, now_us=wall_us
        )
        hashed = token_hash(auth.token)
        right = self.revoked().fault(peer_id, hashed) or self._right(auth.token, visit)
        if isinstance(right, TokenFault):
            return _deny(_FAULT_CODES[right], right.value)
        return Admitted(
            peer_id=peer_id,
            role=role,
            rate_class=right.rate_class,
            caps=auth.caps,
            client_nonce=auth.client_nonce,
            skew_us=_skew_us(auth.client_nonce, challenge.time_ms, wall_us),
            lease_s=right.lease_s,
            token_hash=hashed,
            is_market=peer_id == self.market,
        )

    def _right(self, token: bytes, visit: Visit) -> "_Right | TokenFault":
        """Return what a visitor may, by its token or at an open relay by its role."""
        if visit.role is Role.ANY:
            return TokenFault.OTHER_ROLE
        if self.network is None:
            return _Right(_OPEN_RATE_CLASSES.get(visit.role, RateClass.HUB), 0)
        checked = check_token(token, self.network, visit)
        if isinstance(checked, TokenFault):
            return checked
        return _Right(checked.rate_class, _lease_s(checked, visit.now_us))


class _Right(NamedTuple):
    rate_class: RateClass
    lease_s: int


def _lease_s(token: NetworkToken, now_us: int) -> int:
    """Return the whole seconds that a token still holds, at least one; 0: no end."""
    if not token.not_after_us:
        return 0
    left_s = -((now_us - token.not_after_us) // 1_000_000)
    return min(max(left_s, 1), _MAX_LEASE_S)


def _skew_us(nonce: bytes, sent_ms: int, received_us: int) -> int:
    # The peer read its clock about half-way between our challenge and its answer.
    middle_us = (sent_ms * 1000 + received_us) // 2
    skew = int.from_bytes(nonce[:8], "big") * 1000 - middle_us
    return min(max(skew, -(2**62)), 2**62)


def _deny(code: DenyCode, text: str) -> Deny:
    return Deny(code=code, retry_ms=0, text=text)


def _welcome_text(
    challenge: Challenge, nonce: bytes, peer_id: bytes, welcome: Welcome
) -> bytes:
    return b"".join(
        (
            _WELCOME_DOMAIN,
            challenge.nonce,
            nonce,
            peer_id,
            welcome.session,
            hashlib.sha256(pack_limits(welcome.limits)).digest(),
            hashlib.sha256(welcome.descriptor).digest(),
        )
    )


def sign_welcome(
    welcome: Welcome,
    challenge: Challenge,
    admitted: Admitted,
    sign: Callable[[bytes], bytes],
) -> Welcome:
    """Return `welcome` with the relay's signature for this peer and this handshake."""
    text = _welcome_text(challenge, admitted.client_nonce, admitted.peer_id, welcome)
    return replace(welcome, signature=sign(text))


def check_welcome(welcome: Welcome, challenge: Challenge, auth: Auth) -> None:
    """Make sure that the relay of the challenge signed this welcome for us.

    Raises:
        WrongRelayId: it did not.
    """
    text = _welcome_text(challenge, auth.client_nonce, auth.peer_id, welcome)
    if not verify(challenge.relay_id, text, welcome.signature):
        raise WrongRelayId(
            f"relay {short_id(challenge.relay_id)} does not hold the key of its id"
        )


def denial_error(deny: Deny, address: str) -> HandshakeRefused:
    """Turn a DENY of the relay at `address` into the error to raise."""
    message = f"relay {address} refuses: {deny.text}"
    if deny.code in (DenyCode.BUSY, DenyCode.DRAINING):
        return RelayBusy(
            message, retry_s=deny.retry_ms / 1000, peer=address, code=deny.code
        )
    if deny.code in _TOKEN_ADVICE:
        advice = _TOKEN_ADVICE[DenyCode(deny.code)]
        return TokenRefused(message, advice=advice, peer=address, code=deny.code)
    return HandshakeRefused(message, peer=address, code=deny.code)
