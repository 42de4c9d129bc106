"""The handshake matrix: who gets in, and who finds out that a relay is false."""

from dataclasses import replace

import pytest

from relay.errors import HandshakeRefused, RelayBusy, TokenRefused, WrongRelayId
from relay.greetings import Auth, Challenge, Deny, DenyCode, Welcome
from relay.handshake import (
    Admitted,
    Credentials,
    Gatekeeper,
    answer_challenge,
    check_welcome,
    client_nonce,
    denial_error,
    sign_welcome,
)
from relay.limits import limits_of
from relay.revocations import Revocations, token_hash
from relay.tokens import RateClass, Role
from tests.support.relays import NETWORK, RELAY, key, token_for, wall_us

PEER = key(1)
HOST = "relay.example.org"
CHALLENGE = Challenge(
    relay_id=RELAY.peer_id, nonce=b"n" * 32, time_ms=wall_us() // 1000
)
CLOSED = Gatekeeper(relay_id=RELAY.peer_id, network=NETWORK.peer_id)
OPEN = Gatekeeper(relay_id=RELAY.peer_id, network=None)


def auth(
    challenge: Challenge = CHALLENGE,
    host: str = HOST,
    skew_us: int = 0,
    role: Role = Role.WORKER,
) -> Auth:
    who = Credentials(
        peer_id=PEER.peer_id, sign=PEER.sign, role=role, token=token_for(PEER)
    )
    nonce = client_nonce(wall_us() + skew_us, b"r" * 8)
    return answer_challenge(challenge, who, host, nonce)


def verdict(answer: Auth, gatekeeper: Gatekeeper = CLOSED) -> DenyCode | Admitted:
    judged = gatekeeper.judge(answer, CHALLENGE, HOST, wall_us())
    return DenyCode(judged.code) if isinstance(judged, Deny) else judged


def test_a_good_proof_admits() -> None:
    admitted = verdict(auth())
    assert isinstance(admitted, Admitted)
    assert admitted.peer_id == PEER.peer_id
    assert admitted.rate_class is RateClass.HUB
    assert admitted.skew_us == 0


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (replace(auth(), signature=bytes(64)), DenyCode.BAD_SIGNATURE),
        (replace(auth(), peer_id=key(2).peer_id), DenyCode.BAD_SIGNATURE),
        (replace(auth(), client_nonce=bytes(16)), DenyCode.BAD_SIGNATURE),
        (replace(auth(), role=Role.BACKBONE), DenyCode.BAD_SIGNATURE),
        (replace(auth(), caps=1), DenyCode.BAD_SIGNATURE),
        (replace(auth(), token=b""), DenyCode.BAD_SIGNATURE),
        # Replayed from an earlier handshake, and passed on by another relay.
        (auth(replace(CHALLENGE, nonce=b"o" * 32)), DenyCode.BAD_SIGNATURE),
        (auth(replace(CHALLENGE, relay_id=key(3).peer_id)), DenyCode.BAD_SIGNATURE),
        (auth(host="rogue.example.org"), DenyCode.BAD_SIGNATURE),
        (replace(auth(), role=200), DenyCode.TOKEN_OTHER_ROLE),
        (auth(role=Role.ANY), DenyCode.TOKEN_OTHER_ROLE),
    ],
)
def test_a_wrong_proof_is_denied(answer: Auth, code: DenyCode) -> None:
    assert verdict(answer) is code


def test_only_the_market_that_the_network_names_counts_as_one() -> None:
    for market, is_market in ((PEER.peer_id, True), (key(2).peer_id, False)):
        gate = replace(OPEN, market=market)
        admitted = gate.judge(auth(role=Role.MARKET), CHALLENGE, HOST, 0)
        assert isinstance(admitted, Admitted)
        assert admitted.is_market is is_market


def test_b39_a_weak_key_is_denied_although_its_signature_verifies() -> None:
    neutral = b"\x01" + bytes(31)
    answer = replace(auth(), peer_id=neutral, signature=neutral + bytes(32))
    assert verdict(answer) is DenyCode.BAD_KEY
    assert verdict(answer, OPEN) is DenyCode.BAD_KEY


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"network": key(9).peer_id}, DenyCode.TOKEN_FOREIGN),
        ({"peer_id": key(9).peer_id}, DenyCode.TOKEN_NOT_YOURS),
        ({"relay_id": key(9).peer_id}, DenyCode.TOKEN_OTHER_RELAY),
        ({"role": Role.LEDGER}, DenyCode.TOKEN_OTHER_ROLE),
        ({"not_after_us": 1}, DenyCode.TOKEN_EXPIRED),
    ],
)
def test_a_token_that_does_not_admit(changes: dict, code: DenyCode) -> None:
    who = Credentials(
        peer_id=PEER.peer_id,
        sign=PEER.sign,
        role=Role.WORKER,
        token=token_for(PEER, **changes),
    )
    answer = answer_challenge(CHALLENGE, who, HOST, bytes(16))
    assert verdict(answer) is code
    assert isinstance(verdict(answer, OPEN), Admitted)


def test_no_token_and_nonsense() -> None:
    for token, code in (
        (b"", DenyCode.TOKEN_MISSING),
        (b"x" * 99, DenyCode.TOKEN_MALFORMED),
    ):
        who = Credentials(
            peer_id=PEER.peer_id, sign=PEER.sign, role=Role.WORKER, token=token
        )
        assert verdict(answer_challenge(CHALLENGE, who, HOST, bytes(16))) is code


def test_an_open_relay_gives_limits_by_role() -> None:
    worker = verdict(auth(role=Role.WORKER), OPEN)
    backbone = verdict(auth(role=Role.BACKBONE), OPEN)
    assert isinstance(worker, Admitted)
    assert isinstance(backbone, Admitted)
    assert worker.rate_class is RateClass.LAPTOP
    assert backbone.rate_class is RateClass.HUB


@pytest.mark.parametrize(
    ("left_us", "lease_s"),
    [(None, 0), (0, 1), (1, 1), (1_000_000, 1), (1_000_001, 2), (10**17, 2**32 - 1)],
)
def test_a_token_bounds_the_connection(left_us: int | None, lease_s: int) -> None:
    not_after_us = 0 if left_us is None else wall_us() + left_us
    token = token_for(PEER, not_after_us=not_after_us)
    who = Credentials(
        peer_id=PEER.peer_id, sign=PEER.sign, role=Role.WORKER, token=token
    )
    admitted = verdict(answer_challenge(CHALLENGE, who, HOST, bytes(16)))
    assert isinstance(admitted, Admitted)
    assert admitted.lease_s == lease_s
    assert admitted.token_hash == token_hash(token)


def test_what_was_revoked_is_denied() -> None:
    def revoking(**changes: object) -> Gatekeeper:
        return replace(CLOSED, revoked=lambda: Revocations(**changes))

    hashes = frozenset({token_hash(token_for(PEER))})
    assert verdict(auth(), revoking(tokens=hashes)) is DenyCode.TOKEN_REVOKED
    peers = frozenset({PEER.peer_id})
    assert verdict(auth(), revoking(peers=peers)) is DenyCode.PEER_REVOKED
    open_too = replace(OPEN, revoked=revoking(peers=peers).revoked)
    assert verdict(auth(), open_too) is DenyCode.PEER_REVOKED
    others = frozenset({key(9).peer_id})
    assert isinstance(verdict(auth(), revoking(peers=others)), Admitted)


def test_a_relay_that_knows_its_names_answers_to_no_other() -> None:
    named = replace(OPEN, hosts=frozenset({HOST}))
    assert isinstance(verdict(auth(), named), Admitted)
    other = replace(OPEN, hosts=frozenset({"other.example.org"}))
    assert verdict(auth(), other) is DenyCode.WRONG_HOST


@pytest.mark.parametrize("skew_s", [600, -86_400, 7_200, 10**9])
def test_b28_any_skew_joins_and_is_measured(skew_s: int) -> None:
    admitted = verdict(auth(skew_us=skew_s * 1_000_000))
    assert isinstance(admitted, Admitted)
    assert abs(admitted.skew_us - skew_s * 1_000_000) <= 1000


def test_b28_a_clock_before_1970_joins() -> None:
    assert isinstance(verdict(auth(skew_us=-(2**62))), Admitted)


def signed_welcome() -> tuple[Welcome, Auth]:
    answer = auth()
    admitted = verdict(answer)
    assert isinstance(admitted, Admitted)
    unsigned = Welcome(
        relay_id=RELAY.peer_id,
        session=b"s" * 16,
        observed_address="192.0.2.1:4",
        limits=limits_of(RateClass.HUB),
        map_version=0,
        skew_us=0,
        descriptor=b"descriptor",
        signature=b"",
    )
    return sign_welcome(unsigned, CHALLENGE, admitted, RELAY.sign), answer


def test_the_welcome_proves_the_relays_key() -> None:
    welcome, answer = signed_welcome()
    check_welcome(welcome, CHALLENGE, answer)


def test_a_welcome_of_another_handshake_key_or_content_is_refused() -> None:
    welcome, answer = signed_welcome()
    forged = [
        (replace(welcome, session=b"t" * 16), CHALLENGE, answer),
        (replace(welcome, descriptor=b"another"), CHALLENGE, answer),
        (replace(welcome, limits=limits_of(RateClass.PHONE)), CHALLENGE, answer),
        (welcome, replace(CHALLENGE, nonce=b"o" * 32), answer),
        (welcome, replace(CHALLENGE, relay_id=key(3).peer_id), answer),
        (welcome, CHALLENGE, replace(answer, client_nonce=bytes(16))),
        (welcome, CHALLENGE, replace(answer, peer_id=key(4).peer_id)),
    ]
    for case in forged:
        with pytest.raises(WrongRelayId):
            check_welcome(*case)


def test_each_denial_becomes_an_error_with_advice() -> None:
    for code in DenyCode:
        error = denial_error(Deny(code=code, retry_ms=1500, text="why"), "host:1")
        assert str(error) == "relay host:1 refuses: why"
        assert error.code == code
        if code.name.startswith(("TOKEN_", "PEER_")):
            assert isinstance(error, TokenRefused)
            assert error.advice
        elif code in (DenyCode.BUSY, DenyCode.DRAINING):
            assert isinstance(error, RelayBusy)
            assert error.retry_s == 1.5
        else:
            assert type(error) is HandshakeRefused
    unknown = denial_error(Deny(code=99, retry_ms=0, text="why"), "host:1")
    assert type(unknown) is HandshakeRefused
