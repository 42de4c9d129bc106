"""Who was invited: the book of an operator's invites, in one JSON file.

    {"p2pmoe_invites": 1,
     "invites": [{"name", "hash", "role", "rate", "not_after_us", "for", "serial",
                  "issued_us"}, ...]}

It holds the terms of each token, never a token: with the network's key a token can be
made again from them, without it they are of no use. `hash` is the SHA-256 by which a
revocation names the token; `not_after_us` (0: no end) and `issued_us` are wall time;
`for` is a peer id or empty. The book is replaced whole, under a lock of the folder, so
that two commands at once lose nothing.
"""

import json
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import OperatorFolder, locked, read_bounded, replace_file
from p2pmoe.network.network import Network, Terms
from p2pmoe.strict_json import NotStrict, parse_json
from relay.errors import WeakKey
from relay.keys import peer_id_from_hex
from relay.revocations import token_hash
from relay.tokens import RateClass, Role

__all__ = [
    "MEMBERS",
    "Issued",
    "encode_book",
    "find_issued",
    "issue",
    "member_token",
    "parse_book",
    "read_book",
]

MEMBERS: Final = "members"  # the name of what is in the folder's own invite.json
_VERSION: Final = 1
_MAX_INVITES: Final = 50_000
_MAX_BYTES: Final = 32 * 1024 * 1024
_MAX_NAME: Final = 64
_MAX_TIME_US: Final = 1 << 63
_MIN_HASH_DIGITS: Final = 8
_MEMBERS_OF_ONE: Final = frozenset(
    ("name", "hash", "role", "rate", "not_after_us", "for", "serial", "issued_us")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """One invite: its name, its terms, when it was made, and its token's hash."""

    name: str
    terms: Terms
    issued_us: int
    hash: bytes


def issue(
    folder: OperatorFolder, network: Network, name: str, terms: Terms, *, now_us: int
) -> tuple[Issued, bytes]:
    """Write an invite into the book; return it and its token, which is secret.

    Without a name it is named by the first digits of its hash.

    Raises:
        ConfigurationError: the name cannot be one, or the book is full.
        FolderUnusable: the book cannot be read or written.
    """
    _check_name(name)
    with locked(folder):
        return _issue(folder, network, name, terms, now_us)


def member_token(
    folder: OperatorFolder, network: Network, revoked: Container[bytes], *, now_us: int
) -> bytes:
    """Return the token of the folder's own invite, any peer and any role.

    It is the same at each start, until it is revoked: then there is another.

    Raises:
        FolderUnusable: the book cannot be read or written.
    """
    with locked(folder):
        for issued in reversed(read_book(folder)):
            if issued.name != MEMBERS or issued.hash in revoked:
                continue
            token = network.token(issued.terms)
            if token_hash(token) == issued.hash:  # else the book is another network's
                return token
        terms = Terms()
        if token_hash(network.token(terms)) in revoked:
            terms = Terms().numbered()
        return _issue(folder, network, MEMBERS, terms, now_us)[1]


def _issue(
    folder: OperatorFolder, network: Network, name: str, terms: Terms, now_us: int
) -> tuple[Issued, bytes]:
    book = read_book(folder)
    if len(book) >= _MAX_INVITES:
        raise ConfigurationError(
            f"{folder.invites} lists {len(book)} invites already",
            advice="take out those that have ended",
        )
    token = network.token(terms)
    hashed = token_hash(token)
    named = name or hashed.hex()[:_MIN_HASH_DIGITS]
    issued = Issued(name=named, terms=terms, issued_us=now_us, hash=hashed)
    replace_file(folder.invites, encode_book([*book, issued]).encode("utf-8"))
    return issued, token


def find_issued(book: Iterable[Issued], named: str) -> Issued:
    """Return the one invite of this name, or whose hash begins with these digits.

    Raises:
        ConfigurationError: there is none, or more than one.
    """
    digits = named.lower()
    found = [
        issued
        for issued in book
        if issued.name == named
        or (len(digits) >= _MIN_HASH_DIGITS and issued.hash.hex().startswith(digits))
    ]
    if len(found) == 1:
        return found[0]
    advice = "see `p2pmoe network show` for names and hashes"
    if not found:
        raise ConfigurationError(f"no invite is named {named[:80]!r}", advice=advice)
    raise ConfigurationError(
        f"{len(found)} invites are named {named[:80]!r}",
        advice="name the one by the first digits of its hash",
    )


def read_book(folder: OperatorFolder) -> list[Issued]:
    """Read the book, oldest first; no file is an empty one.

    Raises:
        FolderUnusable: it cannot be read, or is no such book.
    """
    raw = read_bounded(folder.invites, _MAX_BYTES)
    return [] if raw is None else parse_book(raw, folder.invites)


def encode_book(book: Iterable[Issued]) -> str:
    """Return the file's text, one invite a line."""
    lines = ",\n".join("  " + json.dumps(_members(issued)) for issued in book)
    return f'{{"p2pmoe_invites": {_VERSION}, "invites": [\n{lines}\n]}}\n'


def _members(issued: Issued) -> dict[str, object]:
    terms = issued.terms
    return {
        "name": issued.name,
        "hash": issued.hash.hex(),
        "role": terms.role.name.lower(),
        "rate": terms.rate_class.name.lower(),
        "not_after_us": terms.not_after_us,
        "for": (terms.peer_id or b"").hex(),
        "serial": terms.serial,
        "issued_us": issued.issued_us,
    }


def parse_book(raw: bytes, path: Path) -> list[Issued]:
    """Read a book's text; `path` is named in errors.

    Raises:
        FolderUnusable: anything but what `encode_book` writes.
    """
    try:
        book = parse_json(raw.decode("utf-8"), max_depth=4, max_digits=20)
        return list(_parse_all(_invites_of(book)))
    except (UnicodeDecodeError, NotStrict, ValueError, WeakKey) as exc:
        raise FolderUnusable(
            f"{path}: {exc}", advice="restore it, or move it away: invites stay valid"
        ) from exc


def _invites_of(book: object) -> list[Any]:
    if not isinstance(book, dict) or book.keys() != {"p2pmoe_invites", "invites"}:
        raise ValueError("is no book of invites")
    invites = book["invites"]
    if book["p2pmoe_invites"] != _VERSION or not isinstance(invites, list):
        raise ValueError("is of an unknown version")
    return invites


def _parse_all(values: list[Any]) -> Iterator[Issued]:
    if len(values) > _MAX_INVITES:
        raise ValueError(f"lists more than {_MAX_INVITES} invites")
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict) or value.keys() != _MEMBERS_OF_ONE:
            raise ValueError(f"invite {number} is none")
        yield _parse_one(value)


def _parse_one(value: dict[str, Any]) -> Issued:
    texts = [value[member] for member in ("name", "hash", "role", "rate", "for")]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("an invite's member is no text")
    name, hashed, role, rate, peer = texts
    try:
        role, rate = Role[role.upper()], RateClass[rate.upper()]
    except KeyError as exc:
        raise ValueError(f"an invite has no role or rate {exc}") from exc
    terms = Terms(
        role=role,
        rate_class=rate,
        not_after_us=_number(value["not_after_us"], _MAX_TIME_US),
        peer_id=peer_id_from_hex(peer) if peer else None,
        serial=_number(value["serial"], 1 << 64),
    )
    raw_hash = bytes.fromhex(hashed)
    if len(raw_hash) != 32:
        raise ValueError("an invite's hash is none")
    issued_us = _number(value["issued_us"], _MAX_TIME_US)
    return Issued(name=name, terms=terms, issued_us=issued_us, hash=raw_hash)


def _number(value: object, limit: int) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise ValueError("an invite's number is out of range")
    return value


def _check_name(name: str) -> None:
    if name == MEMBERS or len(name) > _MAX_NAME or not name.isprintable():
        raise ConfigurationError(
            f"an invite cannot be named {name[:80]!r}",
            advice=f"use at most {_MAX_NAME} printable characters, not {MEMBERS!r}",
        )
