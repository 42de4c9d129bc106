"""`p2pmoe network revoke`: take an invite back, or shut a peer out.

An invite is named by its file, or as `network show` lists it. A peer is shut out
whatever token it shows, at every relay that has the list. A running relay reads the
list at SIGHUP, tells whom it concerns and closes their connections.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.network_invite import Data, open_network

if TYPE_CHECKING:
    from p2pmoe.network.folder import OperatorFolder
    from p2pmoe.network.network import Network

__all__ = ["register"]


def register(group: typer.Typer) -> None:
    """Add the command to the group."""
    group.command("revoke")(_revoke)


def _revoke(
    invite: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INVITE]...",
            help="Invite files, names, or first digits of hashes.",
            show_default=False,
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A peer to shut out (64 hex); repeatable."),
    ] = None,
    data: Data = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Revoke invites or peers: relays that have the list refuse and close them."""
    from p2pmoe.cli.tables import print_json, print_values
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.network.revoking import revoke
    from relay.keys import peer_id_from_hex

    if not invite and not peer:
        raise ConfigurationError(
            "nothing was named to revoke",
            advice="name invites by file, name or hash, or a peer with --peer",
        )
    folder, network = open_network(data)
    revoked = revoke(
        folder,
        network,
        tokens=[_hash_of(folder, network, named) for named in invite or ()],
        peers=[peer_id_from_hex(text) for text in peer or ()],
    )
    told = {
        "file": str(folder.revocations),
        "version": revoked.version,
        "tokens": len(revoked.tokens),
        "peers": len(revoked.peers),
    }
    if as_json:
        print_json(told)
    else:
        print_values(told)
    print(
        "relays learn of it at SIGHUP: `systemctl reload p2pmoe-relay`, "
        "or `kill -HUP` its process; one elsewhere needs the file first",
        file=sys.stderr,
    )


def _hash_of(folder: "OperatorFolder", network: "Network", named: str) -> bytes:
    """Return the token's hash of an invite: a file, or as it is listed."""
    from p2pmoe.network.errors import InviteBroken
    from p2pmoe.network.invite import read_invite
    from p2pmoe.network.invites import find_issued, read_book
    from relay.revocations import token_hash

    path = Path(named)
    if not path.is_file():
        return find_issued(read_book(folder), named).hash
    invite = read_invite(path)
    if invite.network != network.network_id:
        raise InviteBroken(
            f"invite {path} is of another network",
            advice="name the folder of its network with --data",
        )
    return token_hash(invite.token)
