"""`p2pmoe network ...`: what a network's operator decides, on the operator's folder.

    network create     make its keys
    network invite     write a file that lets someone join
    network revoke     take an invite back, or shut a peer out
    network show       its id, its services, and who was invited
    network relays     its relay map, in network_relays.py

Nothing here talks to a relay: each command changes files in the folder, which a running
relay reads again at SIGHUP. No token is ever printed.
"""

import importlib
import importlib.util

import typer

__all__ = ["register"]

# Modules of this package that add a command to the group by `register(group)`.
_GROUP = ("network_relays",)


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="Found a network, invite to it, revoke, name its relays.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.callback()(_network)
    for name in _GROUP:
        if importlib.util.find_spec(f"p2pmoe.cli.{name}") is not None:
            importlib.import_module(f"p2pmoe.cli.{name}").register(group)
    app.add_typer(group, name="network")


def _network() -> None:
    """Keep a single command one of a group."""
