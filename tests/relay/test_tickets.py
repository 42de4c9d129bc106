"""Resume tickets: what holds, for how long, and what a forger gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.tickets import TICKET_S, TicketOffice, ticket_of, ticket_subprotocol
from tests.support.relays import RELAY, key, wall_us

OFFICE = TicketOffice(RELAY.seed)
PEER = key(1).peer_id
TICKET = OFFICE.issue(PEER, wall_us())


def test_a_ticket_names_its_peer_for_a_month_and_over_a_restart() -> None:
    restarted = TicketOffice(RELAY.seed)
    assert len(TICKET) == 73
    assert restarted.holder(TICKET, wall_us()) == PEER
    month_us = TICKET_S * 1_000_000
    assert restarted.holder(TICKET, wall_us() + month_us) == PEER
    assert restarted.holder(TICKET, wall_us() + month_us + 1_000_000) is None


def test_another_relay_does_not_take_it() -> None:
    assert TicketOffice(key(2).seed).holder(TICKET, wall_us()) is None
    assert OFFICE.holder(b"", wall_us()) is None
    assert OFFICE.issue(PEER, -5)


@given(st.integers(0, len(TICKET) - 1), st.integers(1, 255))
def test_every_changed_byte_is_noticed(at: int, flip: int) -> None:
    changed = bytearray(TICKET)
    changed[at] ^= flip
    assert OFFICE.holder(bytes(changed), wall_us()) is None


def test_it_is_shown_as_a_subprotocol_that_a_browser_can_send() -> None:
    text = ticket_subprotocol(TICKET)
    assert text.startswith("p2pmoe-ticket.")
    assert set(text) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
    )
    assert ticket_of([f"p2pmoe-relay.v1, {text}"]) == TICKET
    assert ticket_of(["p2pmoe-relay.v1", text, "p2pmoe-ticket.AAAA"]) == TICKET


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [""],
        ["p2pmoe-relay.v1"],
        ["p2pmoe-ticket."],
        ["p2pmoe-ticket.!!!"],
        ["p2pmoe-ticket.A"],
        ["p2pmoe-ticket.\x80"],
        ["p2pmoe-ticket." + "A" * 400],
        ["x" * 10_000],
    ],
)
def test_what_is_no_ticket_is_none(headers: list[str]) -> None:
    assert ticket_of(headers) == b""


@given(st.text(max_size=300))
def test_noise_is_never_an_error(text: str) -> None:
    assert OFFICE.holder(ticket_of([f"p2pmoe-ticket.{text}"]), wall_us()) is None


@given(st.binary(max_size=128))
def test_any_ticket_survives_the_way(raw: bytes) -> None:
    assert ticket_of([ticket_subprotocol(raw)]) == raw
