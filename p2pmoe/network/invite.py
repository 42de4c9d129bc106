"""An invite: the one small file that lets someone join a network.

JSON with exactly these members:

    {"p2pmoe_invite": 1,
     "relay": "wss://host:port/relay#<relay id, 64 hex>",
     "network": "<network id, 64 hex>",
     "token": "<network token, base64>"}

With several relays, which are 2 to 8, it is version 2, and `"relays"`, a list of such
URLs, stands in place of `"relay"`. Relays that the network gets later are learnt from
its signed map, so an invite only needs those by which a newcomer gets in.

The token is a secret of the network's members: the file is written with mode 0600 and
never printed. The token must be of the network that the file names; whether its
signature holds, the relay checks.
"""

import base64
import binascii
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.errors import FolderUnusable, InviteBroken
from relay.endpoint import Endpoint, parse_endpoint
from relay.errors import RelayError
from relay.keys import PeerId, peer_id_from_hex
from relay.tokens import parse_token

__all__ = [
    "INVITE_VARIABLE",
    "MAX_RELAYS",
    "Invite",
    "encode_invite",
    "find_invite",
    "parse_invite",
    "read_invite",
    "write_invite",
]

INVITE_VARIABLE = "P2PMOE_INVITE"
MAX_RELAYS = 8
_MAX_FILE_BYTES = 8192
_VERSION = "p2pmoe_invite"
_MEMBERS = {
    1: (_VERSION, "relay", "network", "token"),
    2: (_VERSION, "relays", "network", "token"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Invite:
    """Where to join, which network that is, and the right to. `token` is secret.

    `relays`: 1 to 8, each with its id; all are of equal worth.
    """

    relays: tuple[Endpoint, ...]
    network: PeerId
    token: bytes

    @property
    def relay(self) -> Endpoint:
        """The first relay."""
        return self.relays[0]

    def __repr__(self) -> str:
        return f"Invite({self.relay.url}, network {self.network[:4].hex()})"


def encode_invite(invite: Invite) -> str:
    """Return the file's text: version 1 where one relay is all there is to say."""
    urls = [str(relay) for relay in invite.relays[:MAX_RELAYS]]
    places: dict[str, object] = (
        {_VERSION: 1, "relay": urls[0]}
        if len(urls) == 1
        else {_VERSION: 2, "relays": urls}
    )
    members = places | {
        "network": invite.network.hex(),
        "token": base64.b64encode(invite.token).decode("ascii"),
    }
    return json.dumps(members, indent=2) + "\n"


def parse_invite(text: str) -> Invite:
    """Read an invite's text.

    Raises:
        InviteBroken: anything but exactly what `encode_invite` writes.
    """
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InviteBroken("invite is not json") from exc
    if not isinstance(members, dict) or _VERSION not in members:
        raise InviteBroken(f"invite does not have the members {', '.join(_MEMBERS[1])}")
    version = members[_VERSION]
    names = _MEMBERS.get(version) if type(version) is int else None
    if names is None:
        raise InviteBroken(f"invite of unknown version {version!r:.40}")
    if sorted(members) != sorted(names):
        raise InviteBroken(f"invite does not have the members {', '.join(names)}")
    relays, network, token = (members[name] for name in names[1:])
    urls = relays if isinstance(relays, list) and version > 1 else [relays]
    if not all(isinstance(each, str) for each in (*urls, network, token)):
        raise InviteBroken("a member of the invite is no text")
    if not 1 <= len(urls) <= MAX_RELAYS:
        raise InviteBroken(f"invite with {len(urls)} relays, not 1 to {MAX_RELAYS}")
    return _checked(urls, network, token)


def _checked(urls: Iterable[str], network: str, token: str) -> Invite:
    try:
        invite = Invite(
            relays=tuple(dict.fromkeys(parse_endpoint(url) for url in urls)),
            network=peer_id_from_hex(network),
            token=base64.b64decode(token, validate=True),
        )
        parsed = parse_token(invite.token)
    except (RelayError, binascii.Error) as exc:
        raise InviteBroken(f"invite: {exc}") from exc
    for relay in invite.relays:
        if not relay.secure:
            raise InviteBroken("invite's relay URL does not begin with wss://")
        if relay.relay_id is None:
            raise InviteBroken("invite's relay URL does not carry the relay's id")
    if parsed.network != invite.network:
        raise InviteBroken("invite's token is of another network")
    return invite


def read_invite(path: Path) -> Invite:
    """Read an invite file.

    Raises:
        InviteBroken: it cannot be read, or is no invite; the file is named.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise InviteBroken(f"cannot read invite {path}: {reason}") from exc
    if len(raw) > _MAX_FILE_BYTES:
        raise InviteBroken(f"invite {path} is too large")
    try:
        return parse_invite(raw.decode("ascii"))
    except UnicodeDecodeError as exc:
        raise InviteBroken(f"invite {path} is not ascii text") from exc
    except InviteBroken as exc:
        raise InviteBroken(f"{path}: {exc}") from exc


def write_invite(path: Path, invite: Invite) -> None:
    """Write an invite file, mode 0600, whole or not at all.

    Raises:
        FolderUnusable: it cannot be written.
    """
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(encode_invite(invite))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise FolderUnusable(f"cannot write invite {path}: {reason}") from exc


def find_invite(option: Path | None, environment: Mapping[str, str]) -> Invite:
    """Read the invite that `--invite` or the variable P2PMOE_INVITE names.

    Raises:
        ConfigurationError: neither names one.
        InviteBroken: see `read_invite`.
    """
    named = environment.get(INVITE_VARIABLE, "")
    path = option or (Path(named) if named else None)
    if path is None:
        raise ConfigurationError(
            "no invite to a network was given",
            advice=f"name the invite file with --invite or {INVITE_VARIABLE}",
        )
    return read_invite(path)
