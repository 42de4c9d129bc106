"""`p2pmoe network ...`: what a network's operator decides, on the operator's folder.

    network create     make its keys
    network invite     write a file that lets someone join      network_invite.py
    network revoke     take an invite back, or shut a peer out  network_revoke.py
    network show       its id, its services, and who was invited
    network relays     its relay map                            network_relays.py

Nothing here talks to a relay: each command changes files in the folder, which a running
relay reads again at SIGHUP. No token is ever printed.
"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli import network_invite, network_relays, network_revoke
from p2pmoe.cli.network_invite import Data

if TYPE_CHECKING:
    from p2pmoe.network.folder import OperatorFolder
    from p2pmoe.network.invites import Issued
    from p2pmoe.network.network import Network
    from relay.revocations import Revocations

__all__ = ["register"]

_COLUMNS = ("name", "hash", "role", "rate", "for", "issued", "ends", "state")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="Found a network, invite to it, revoke, name its relays.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("create")(_create)
    network_invite.register(group)
    network_revoke.register(group)
    group.command("show")(_show)
    network_relays.register(group)
    app.add_typer(group, name="network")


def _create(data: Data = None, as_json: AsJson = False) -> None:
    """Make a network: its key, and the identities of relay, market and ledger."""
    from p2pmoe.cli.tables import print_json, print_values
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.network.folder import OperatorFolder, Service, default_folder
    from p2pmoe.network.hosted import hosted_network
    from relay.keys import load_or_create_key

    folder = OperatorFolder(data or default_folder())
    if folder.network_key.exists():
        raise ConfigurationError(
            f"there is a network in {folder.path} already",
            advice="see `p2pmoe network show`, or name another folder with --data",
        )
    hosted = hosted_network(folder, None, None, only=False)
    ids = {
        "network": hosted.network_id.hex(),
        "relay": load_or_create_key(folder.relay_key).peer_id.hex(),
        "market": folder.service_id(Service.MARKET).hex(),
        "ledger": folder.service_id(Service.LEDGER).hex(),
    }
    if as_json:
        print_json({"folder": str(folder.path), **ids})
    else:
        print_values({"folder": str(folder.path), **ids})
    print(
        f"keep a copy of {folder.network_key} where nobody else reads it: "
        "whoever has it is the network's operator, and without it nobody is",
        file=sys.stderr,
    )


def _show(data: Data = None, as_json: AsJson = False) -> None:
    """Print the network's ids, what is revoked, and every invite."""
    from mobile_worker.clock import SystemClock
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.network.invites import read_book
    from p2pmoe.network.revoking import read_revocations

    folder, network = network_invite.open_network(data)
    revoked = read_revocations(folder, network.network_id)
    now_us = SystemClock().wall_us()
    rows = [_row(issued, revoked, now_us) for issued in read_book(folder)]
    values = {**_ids(folder, network), "revocations": revoked.version}
    peers = [peer.hex() for peer in sorted(revoked.peers)]
    if as_json:
        print_json({**values, "invites": rows, "revoked_peers": peers})
        return
    for name, value in (*values.items(), *(("revoked peer", peer) for peer in peers)):
        print(f"{name}: {value}", file=sys.stderr)
    print_rows(_COLUMNS, rows, title="invites")


def _ids(folder: "OperatorFolder", network: "Network") -> dict[str, object]:
    """Return the public ids that the folder knows; it makes none."""
    from p2pmoe.network.folder import Service
    from relay.keys import load_key

    relay = folder.relay_key
    return {
        "folder": str(folder.path),
        "network": network.network_id.hex(),
        "relay": load_key(relay).peer_id.hex() if relay.exists() else "",
        **{
            f"relay/{shard}": load_key(folder.shard_key(shard)).peer_id.hex()
            for shard in folder.shards()
        },
        **{
            service.value: folder.service_id(service).hex()
            if folder.knows(service)
            else ""
            for service in Service
        },
    }


def _row(issued: "Issued", revoked: "Revocations", now_us: int) -> dict[str, object]:
    terms = issued.terms
    ended = 0 < terms.not_after_us < now_us
    shut_out = terms.peer_id is not None and terms.peer_id in revoked.peers
    state = "ended" if ended else "valid"
    return {
        "name": issued.name,
        "hash": issued.hash.hex()[:16],
        "role": terms.role.name.lower(),
        "rate": terms.rate_class.name.lower(),
        "for": (terms.peer_id or b"").hex(),
        "issued": network_invite.day_of(issued.issued_us),
        "ends": network_invite.day_of(terms.not_after_us) if terms.not_after_us else "",
        "state": "revoked" if shut_out or issued.hash in revoked.tokens else state,
    }
