"""`p2pmoe market`: run a network's market as a process of its own.

A group of commands that runs a market when none of them is named; what tells of its
prices has a file of its own (`market_prices.py`). The relay runs with `--only` and
names this market by its id. SIGTERM ends it with 0, an interrupt with 130. Never loads
numpy.
"""

from pathlib import Path
from typing import Annotated

import typer

from p2pmoe.cli.authority import CaFile, use_authorities
from p2pmoe.cli.market_prices import add_price_commands
from p2pmoe.cli.relay_options import Price, PriceEpoch, StandbyPay

__all__ = ["register"]

InviteFile = Annotated[
    Path | None,
    typer.Option("--invite", metavar="FILE", help="Invite file; else P2PMOE_INVITE."),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Folder of market.identity and what it remembers."
    ),
]
ReadyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the peer id here once the relay let us in."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(rich_markup_mode=None)
    group.callback(invoke_without_command=True)(_market)
    add_price_commands(group)
    app.add_typer(group, name="market")


def _market(
    context: typer.Context,
    invite: InviteFile = None,
    data: Data = None,
    price_uc: Price = 100,
    price_epoch: PriceEpoch = 600,
    standby: StandbyPay = "0",
    ca: CaFile = None,
    ready_file: ReadyFile = None,
) -> None:
    """Run the market of the network that the invite names."""
    if context.invoked_subcommand is not None:
        return
    import functools
    import os

    from ledger.amounts import parse_credits
    from mobile_worker.clock import SystemClock
    from p2pmoe.market.price import PriceSettings
    from p2pmoe.network.folder import OperatorFolder, Service, default_folder
    from p2pmoe.network.invite import find_invite
    from p2pmoe.network.running import log_to_stderr, run_service, run_until_ready
    from p2pmoe.network.services import membership_of, run_market

    log_to_stderr()
    use_authorities(ca)
    member = find_invite(invite, os.environ)
    folder = OperatorFolder(data or default_folder())
    identity = folder.identity(Service.MARKET)
    market = functools.partial(
        run_market,
        membership_of(member, identity),
        folder.market_memory,
        clock=SystemClock(),
        prices=PriceSettings(
            base_uc=price_uc,
            epoch_s=price_epoch,
            standby_uc=parse_credits(standby),
        ),
    )
    report = {"peer_id": identity.peer_id.hex()}
    run_service(functools.partial(run_until_ready, market, ready_file, report))
