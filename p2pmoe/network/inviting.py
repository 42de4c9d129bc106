"""Write an invite file for a member: which relays it names, and where it lies.

The relays are those that were named, else those of the network's map that do not drain
(as many as an invite may name), else those of the folder's own invite.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import OperatorFolder, give_away
from p2pmoe.network.invite import (
    MAX_RELAYS,
    Invite,
    encode_invite,
    parse_invite,
    read_invite,
    write_invite,
)
from p2pmoe.network.invites import Issued, issue
from p2pmoe.network.network import Network, Terms
from p2pmoe.network.relays import read_map
from relay.endpoint import Endpoint, parse_endpoint
from relay.keys import PeerId

__all__ = ["MemberInvite", "relays_to_name", "write_member_invite"]

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberInvite:
    """An invite to be written: its terms, its relays, its name ("": by its hash).

    output None: into the folder's `invites/`, by its name or hash.
    """

    terms: Terms
    relays: tuple[Endpoint, ...]
    name: str = ""
    output: Path | None = None


def relays_to_name(
    folder: OperatorFolder, network: PeerId, given: Sequence[str]
) -> tuple[Endpoint, ...]:
    """Return the relays that an invite names: see above.

    Raises:
        EndpointError: a given URL cannot be understood.
        ConfigurationError: there is no relay, or too many were given.
        FolderUnusable, InviteBroken, RelayMapBroken: a file cannot be used.
    """
    if len(given) > MAX_RELAYS:
        raise ConfigurationError(
            f"{len(given)} relays were named, above the {MAX_RELAYS} of an invite",
            advice="the relay map tells members the rest: see `p2pmoe network relays`",
        )
    if given:
        return tuple(dict.fromkeys(parse_endpoint(text) for text in given))
    return _mapped(folder, network) or _own(folder)


def _mapped(folder: OperatorFolder, network: PeerId) -> tuple[Endpoint, ...]:
    relay_map = read_map(folder.relay_map, network)
    entries = () if relay_map is None else relay_map.entries
    staying = [entry.endpoint for entry in entries if not entry.draining]
    return tuple(staying[:MAX_RELAYS])


def _own(folder: OperatorFolder) -> tuple[Endpoint, ...]:
    if not folder.invite.exists():
        raise ConfigurationError(
            "the network has no relay yet that an invite could name",
            advice="start `p2pmoe relay` on this folder, "
            "or name one with --relay wss://HOST/relay#RELAY_ID",
        )
    return read_invite(folder.invite).relays


def write_member_invite(
    folder: OperatorFolder, network: Network, wanted: MemberInvite, *, now_us: int
) -> tuple[Issued, Path]:
    """Write the invite into the book and into a file of its own; never replaces one.

    Raises:
        ConfigurationError: the file exists, or the name cannot be one.
        InviteBroken: a relay cannot stand in an invite.
        FolderUnusable: a file cannot be written.
    """
    # Tried before anything is written: what cannot be read again is no invite.
    _invite(network, wanted, network.member_token())
    if wanted.output is not None:
        _check_free(wanted.output)
    issued, token = issue(folder, network, wanted.name, wanted.terms, now_us=now_us)
    path = wanted.output or _path_for(folder, issued)
    write_invite(path, _invite(network, wanted, token))
    return issued, path


def _invite(network: Network, wanted: MemberInvite, token: bytes) -> Invite:
    invite = Invite(relays=wanted.relays, network=network.network_id, token=token)
    return parse_invite(encode_invite(invite))


def _check_free(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise ConfigurationError(
            f"{path} exists already", advice="name another file with --output"
        )
    if not path.parent.is_dir():
        raise ConfigurationError(
            f"{path.parent} is no folder", advice="name another file with --output"
        )


def _path_for(folder: OperatorFolder, issued: Issued) -> Path:
    """Return a free path in the folder: by the name if that is a plain file name."""
    hashed = issued.hash.hex()[:16]
    try:
        folder.invite_files.mkdir(mode=0o700, exist_ok=True)
        give_away(folder.invite_files)
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise FolderUnusable(f"cannot use {folder.invite_files}: {reason}") from exc
    if _PLAIN.fullmatch(issued.name):
        named = folder.invite_files / f"{issued.name}.json"
        if not named.exists():
            return named
    return folder.invite_files / f"{hashed}.json"
