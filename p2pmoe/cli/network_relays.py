"""`p2pmoe network relays ...`: the relay map in the operator's folder.

    relays add URL#ID    put a relay into the map, or change it
    relays remove RELAY  take it out
    relays drain RELAY   let peers leave it; --undo takes that back
    relays list          what the map says

Nothing here talks to a relay: copy relays.map to the folder of each, then send SIGHUP.
"""

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.network_invite import Data, open_network

if TYPE_CHECKING:
    from collections.abc import Callable

    from relay.relay_map import RelayEntry

    Entries = tuple[RelayEntry, ...]

__all__ = ["register"]

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL#ID", help="As the relay prints it: wss://HOST/relay#ID"
    ),
]
Named = Annotated[
    str,
    typer.Argument(metavar="RELAY", help="Its URL, or 8 or more digits of its id."),
]
Region = Annotated[
    str, typer.Option(metavar="REGION", help="Where it stands, such as eu-west.")
]
Weight = Annotated[
    int, typer.Option(min=1, max=1000, metavar="N", help="Its share of the peers.")
]
Undo = Annotated[bool, typer.Option("--undo", help="Peers may come again.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(group: typer.Typer) -> None:
    """Add the commands to the group `p2pmoe network`."""
    relays = typer.Typer(
        help="Name the network's relays in its signed map.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    relays.command("add")(_add)
    relays.command("remove")(_remove)
    relays.command("drain")(_drain)
    relays.command("list")(_list)
    group.add_typer(relays, name="relays")


def _add(
    url: Url, region: Region = "", weight: Weight = 100, data: Data = None
) -> None:
    """Put a relay into the map, or give it another region and weight."""
    from p2pmoe.network.relays import add_entry

    _change(data, functools.partial(add_entry, url=url, region=region, weight=weight))


def _remove(relay: Named, data: Data = None) -> None:
    """Take a relay out of the map: peers leave it and do not come back."""
    from p2pmoe.network.relays import remove_entry

    _change(data, functools.partial(remove_entry, named=relay))


def _drain(relay: Named, data: Data = None, undo: Undo = False) -> None:
    """Let peers leave a relay that goes on serving; it stays in the map."""
    from p2pmoe.network.relays import drain_entry

    _change(data, functools.partial(drain_entry, named=relay, draining=not undo))


def _list(data: Data = None, as_json: AsJson = False) -> None:
    """Print the map."""
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.network.relays import RelayMapFile

    file = RelayMapFile.open(*open_network(data))
    rows = [
        {
            "url": entry.url,
            "relay_id": entry.relay_id.hex(),
            "region": entry.region,
            "weight": entry.weight,
            "draining": entry.draining,
        }
        for entry in file.entries
    ]
    version = 0 if file.current is None else file.current.version
    if as_json:
        network = file.network.network_id.hex()
        print_json({"network": network, "version": version, "relays": rows})
        return
    columns = ("url", "relay_id", "region", "weight", "draining")
    print_rows(columns, rows, title=f"relay map, version {version}")


def _change(data: Path | None, change: "Callable[[Entries], Entries]") -> None:
    """Change the map's entries while no other command does."""
    from p2pmoe.network.folder import locked
    from p2pmoe.network.relays import RelayMapFile

    folder, network = open_network(data)
    with locked(folder):
        file = RelayMapFile.open(folder, network)
        relay_map = file.replace(change(file.entries))
    print(
        f"{file.path}: version {relay_map.version}, {len(relay_map.entries)} in all; "
        "copy it to each relay's folder and send that relay SIGHUP",
        file=sys.stderr,
    )
