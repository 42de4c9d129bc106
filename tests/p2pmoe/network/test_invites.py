import contextlib
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import OperatorFolder
from p2pmoe.network.invites import (
    MEMBERS,
    Issued,
    encode_book,
    find_issued,
    issue,
    member_token,
    parse_book,
    read_book,
)
from p2pmoe.network.network import Network, Terms
from relay.keys import SigningKey
from relay.revocations import token_hash
from relay.tokens import RateClass, Role, parse_token

NETWORK = Network(SigningKey.from_seed(bytes(32)))
PEER = SigningKey.from_seed(b"p" * 32).peer_id
NOW_US = 1_800_000_000_000_000
TERMS = Terms(role=Role.WORKER, rate_class=RateClass.LAPTOP, serial=7)


def test_an_issued_token_is_the_books_terms_and_hash(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    issued, token = issue(folder, NETWORK, "alice", TERMS, now_us=NOW_US)
    assert read_book(folder) == [issued]
    assert issued.hash == token_hash(token)
    assert parse_token(token).serial == 7
    assert NETWORK.token(issued.terms) == token
    assert token.hex() not in folder.invites.read_text()
    assert stat.S_IMODE(folder.invites.stat().st_mode) == 0o600


def test_numbered_terms_make_tokens_that_differ() -> None:
    first, second = Terms().numbered(), Terms().numbered()
    assert first.serial > 0
    assert NETWORK.token(first) != NETWORK.token(second)


def test_the_members_token_stays_until_it_is_revoked(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    first = member_token(folder, NETWORK, frozenset(), now_us=NOW_US)
    assert first == NETWORK.member_token()  # as before there was a book
    assert member_token(folder, NETWORK, frozenset(), now_us=NOW_US) == first
    revoked = {token_hash(first)}
    second = member_token(folder, NETWORK, revoked, now_us=NOW_US)
    assert second != first
    assert member_token(folder, NETWORK, revoked, now_us=NOW_US) == second
    assert [issued.name for issued in read_book(folder)] == [MEMBERS, MEMBERS]


def test_a_book_of_another_network_gives_no_token(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    member_token(folder, NETWORK, frozenset(), now_us=NOW_US)
    other = Network(SigningKey.from_seed(b"o" * 32))
    token = member_token(folder, other, frozenset(), now_us=NOW_US)
    assert token == other.member_token()


def test_commands_at_once_lose_nothing(tmp_path: Path) -> None:
    def invite(name: str) -> None:
        issue(
            OperatorFolder(tmp_path), NETWORK, name, Terms().numbered(), now_us=NOW_US
        )

    names = [f"n{number}" for number in range(8)]
    threads = [threading.Thread(target=invite, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {issued.name for issued in read_book(OperatorFolder(tmp_path))} == {*names}


def issued(name: str, digit: int) -> Issued:
    return Issued(name=name, terms=TERMS, issued_us=1, hash=bytes([digit]) * 32)


def test_an_invite_is_found_by_name_or_first_digits() -> None:
    book = [issued("alice", 0xAA), issued("bob", 0xBB), issued("bob", 0xCC)]
    assert find_issued(book, "alice") is book[0]
    assert find_issued(book, "BBBBBBBB") is book[1]
    for named, reason in (("bob", "2 invites"), ("aaaa", "no invite"), ("", "no invi")):
        with pytest.raises(ConfigurationError, match=reason):
            find_issued(book, named)


@pytest.mark.parametrize("name", [MEMBERS, "x" * 65, "line\nbreak", "\x1b[2J"])
def test_what_cannot_be_a_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be named"):
        issue(OperatorFolder(tmp_path), NETWORK, name, TERMS, now_us=NOW_US)
    assert list(tmp_path.iterdir()) == []


TERMS_STRATEGY = st.builds(
    Terms,
    role=st.sampled_from(Role),
    rate_class=st.sampled_from(RateClass),
    not_after_us=st.integers(0, 2**63 - 1),
    peer_id=st.sampled_from([None, PEER]),
    serial=st.integers(0, 2**64 - 1),
)
BOOKS = st.lists(
    st.builds(
        Issued,
        name=st.text(max_size=64),
        terms=TERMS_STRATEGY,
        issued_us=st.integers(0, 2**63 - 1),
        hash=st.binary(min_size=32, max_size=32),
    ),
    max_size=4,
)


@given(book=BOOKS)
def test_a_book_round_trips(book: list[Issued]) -> None:
    assert parse_book(encode_book(book).encode(), Path("book")) == book


GOOD = encode_book([issued("alice", 1)])


@given(at=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255))
def test_a_damaged_book_is_one_error(at: int, byte: int) -> None:
    raw = bytearray(GOOD.encode())
    raw[at] = byte
    with contextlib.suppress(FolderUnusable):
        parse_book(bytes(raw), Path("book"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"worker"', '"king"'),
        ('"laptop"', "3"),
        ('"serial": 7', '"serial": 18446744073709551616'),
        ('"serial": 7', '"serial": true'),
        ('"issued_us": 1', '"issued_us": -1'),
        ('"for": ""', '"for": "00"'),
        ('"name"', '"nome"'),
        ('_invites": 1', '_invites": 2'),
        ("[", "[[[[["),
    ],
)
def test_each_wrong_member_is_refused(old: str, new: str) -> None:
    assert old in GOOD
    with pytest.raises(FolderUnusable):
        parse_book(GOOD.replace(old, new).encode(), Path("book"))
