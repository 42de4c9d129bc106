"""`p2pmoe network invite`: write a file that lets someone join.

The file holds a token, which is a secret: it is written with mode 0600 and never
printed. `network show` lists it by name and hash, by which it can be revoked. It names
the relays of the network's map, or those of --relay, or the one of the folder's own
invite.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from p2pmoe.network.folder import OperatorFolder
    from p2pmoe.network.network import Network, Terms

__all__ = ["day_of", "open_network", "register"]

_DAY_US = 86_400 * 10**6
_MAX_DAYS = 36_500
_ROLES = ("any", "worker", "hub", "backbone", "client")
_RATES = {"any": "hub", "worker": "laptop", "client": "phone"}

Data = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="The operator's folder, as `relay` has it."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Where to write it; in FOLDER/invites else.",
    ),
]
Name = Annotated[
    str, typer.Option(metavar="NAME", help="What it is listed as; its hash else.")
]
RoleName = Annotated[
    str,
    typer.Option(
        "--role", metavar="ROLE", help="worker, hub, backbone, client, or any."
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS",
        help="phone, laptop or hub: how much it may send. By role else.",
    ),
]
Days = Annotated[
    int,
    typer.Option(
        min=0, max=_MAX_DAYS, metavar="N", help="For so many days; 0: without an end."
    ),
]
For = Annotated[
    str | None,
    typer.Option("--for", metavar="ID", help="For this peer alone (64 hex)."),
]
Relay = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL#ID",
        help="By this relay; repeatable. Those of the map else, or of invite.json.",
    ),
]


def register(group: typer.Typer) -> None:
    """Add the command to the group."""
    group.command("invite")(_invite)


def _invite(
    data: Data = None,
    output: Output = None,
    name: Name = "",
    role: RoleName = "any",
    rate: Rate = None,
    days: Days = 0,
    for_: For = None,
    relay: Relay = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Write an invite: the file that lets its bearer join, as the options say."""
    from mobile_worker.clock import SystemClock
    from p2pmoe.cli.tables import print_json, print_values
    from p2pmoe.network.inviting import (
        MemberInvite,
        relays_to_name,
        write_member_invite,
    )

    folder, network = open_network(data)
    relays = relays_to_name(folder, network.network_id, relay or [])
    now_us = SystemClock().wall_us()
    terms = _terms(role, rate, now_us + days * _DAY_US if days else 0, for_)
    wanted = MemberInvite(terms=terms, relays=relays, name=name, output=output)
    issued, path = write_member_invite(folder, network, wanted, now_us=now_us)
    told = {
        "file": str(path),
        "name": issued.name,
        "hash": issued.hash.hex(),
        "role": terms.role.name.lower(),
        "rate": terms.rate_class.name.lower(),
        "ends": day_of(terms.not_after_us) if days else "",
        "relays": " ".join(str(each) for each in relays),
    }
    if as_json:
        print_json({**told, "relays": [str(each) for each in relays]})
    else:
        print_values(told)
    whom = "its bearer" if terms.peer_id is None else f"peer {terms.peer_id.hex()[:8]}"
    print(f"{path} lets {whom} in: hand it over a safe channel", file=sys.stderr)


def open_network(data: Path | None) -> "tuple[OperatorFolder, Network]":
    """Return the operator's folder and the network in it; makes neither.

    Raises:
        NetworkMissing: there is none.
        KeyFileError, FolderUnusable: a file cannot be read.
    """
    from p2pmoe.network.folder import OperatorFolder, default_folder
    from p2pmoe.network.network import Network

    path = data or default_folder()
    network = Network.load(path / "network.key")
    return OperatorFolder(path), network


def day_of(time_us: int) -> str:
    """Return a wall time as UTC, to the second; beyond the calendar: never."""
    import datetime as dt

    try:
        time = dt.datetime.fromtimestamp(time_us // 10**6, tz=dt.UTC)
    except (ValueError, OverflowError, OSError):
        return "never"
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _terms(role: str, rate: str | None, not_after_us: int, peer: str | None) -> "Terms":
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.network.network import Terms
    from relay.keys import peer_id_from_hex
    from relay.tokens import RateClass, Role

    if role not in _ROLES:
        raise ConfigurationError(
            f"--role {role[:40]!r} is none", advice=f"use one of {', '.join(_ROLES)}"
        )
    classes = [each.name.lower() for each in RateClass]
    wanted = rate or _RATES.get(role, "hub")
    if wanted not in classes:
        raise ConfigurationError(
            f"--rate {wanted[:40]!r} is none", advice=f"use one of {', '.join(classes)}"
        )
    terms = Terms(
        role=Role[role.upper()],
        rate_class=RateClass[wanted.upper()],
        not_after_us=not_after_us,
        peer_id=None if peer is None else peer_id_from_hex(peer),
    )
    return terms.numbered()
