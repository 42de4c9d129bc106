import stat
from pathlib import Path

import pytest

from mobile_worker.session.descriptor import parse_descriptor
from p2pmoe.network.errors import NetworkMissing
from p2pmoe.network.network import Network, Terms
from relay.keys import SigningKey
from relay.tokens import NetworkToken, RateClass, Role, TokenFault, Visit, check_token

MARKET, LEDGER, RELAY, ANYONE = (
    SigningKey.from_seed(bytes([n]) * 32).peer_id for n in range(1, 5)
)


def test_the_key_is_made_once_with_mode_0600(tmp_path: Path) -> None:
    first = Network.load_or_create(tmp_path / "network.key")
    assert (
        Network.load_or_create(tmp_path / "network.key").network_id == first.network_id
    )
    mode = (tmp_path / "network.key").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_missing_network_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NetworkMissing, match=str(tmp_path)):
        Network.load(tmp_path / "network.key")
    made = Network.load_or_create(tmp_path / "network.key")
    assert Network.load(tmp_path / "network.key").network_id == made.network_id


def test_terms_are_what_the_token_grants(tmp_path: Path) -> None:
    network = Network.load_or_create(tmp_path / "network.key")
    terms = Terms(role=Role.WORKER, peer_id=ANYONE, not_after_us=10**15 + 1, serial=9)
    token = network.token(terms)
    check = check_token(token, network.network_id, visit(ANYONE, Role.WORKER))
    assert isinstance(check, NetworkToken)
    for peer, role, fault in (
        (MARKET, Role.WORKER, TokenFault.NOT_YOURS),
        (ANYONE, Role.HUB, TokenFault.OTHER_ROLE),
    ):
        assert check_token(token, network.network_id, visit(peer, role)) is fault


def test_the_descriptor_names_the_services(tmp_path: Path) -> None:
    network = Network.load_or_create(tmp_path / "network.key")
    signed = network.descriptor(MARKET, LEDGER)
    assert parse_descriptor(signed.encoded) == signed
    assert (signed.market, signed.ledger) == (MARKET, LEDGER)
    assert len(signed.encoded) <= 1024


def visit(peer, role: Role) -> Visit:
    return Visit(peer_id=peer, relay_id=RELAY, role=role, now_us=10**15)


@pytest.mark.parametrize("role", [Role.WORKER, Role.HUB, Role.BACKBONE, Role.CLIENT])
def test_an_invites_token_admits_anyone_in_any_role(role: Role, tmp_path) -> None:
    network = Network.load_or_create(tmp_path / "network.key")
    found = check_token(network.member_token(), network.network_id, visit(ANYONE, role))
    assert isinstance(found, NetworkToken)
    assert found.rate_class is RateClass.HUB


def test_a_services_token_admits_only_that_service(tmp_path: Path) -> None:
    network = Network.load_or_create(tmp_path / "network.key")
    token = network.service_token(MARKET, Role.MARKET)
    check = check_token(token, network.network_id, visit(MARKET, Role.MARKET))
    assert isinstance(check, NetworkToken)
    for peer, role, fault in (
        (ANYONE, Role.MARKET, TokenFault.NOT_YOURS),
        (MARKET, Role.LEDGER, TokenFault.OTHER_ROLE),
    ):
        assert check_token(token, network.network_id, visit(peer, role)) is fault
