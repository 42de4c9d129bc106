"""`p2pmoe market`: run a network's market as a process of its own.

The relay runs with `--only` and names this market by its id. SIGTERM ends it with 0, an
interrupt with 130. Never loads numpy.
"""

from pathlib import Path
from typing import Annotated

import typer

from p2pmoe.cli.authority import CaFile, use_authorities

__all__ = ["register"]

InviteFile = Annotated[
    Path | None,
    typer.Option("--invite", metavar="FILE", help="Invite file; else P2PMOE_INVITE."),
]
Data = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder of market.identity and market.json."),
]
Price = Annotated[
    int,
    typer.Option(
        min=0, max=10**9, metavar="PRICE", help="Micro-credits for a row of an expert."
    ),
]
ReadyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the peer id here once the relay let us in."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("market")(_market)


def _market(
    invite: InviteFile = None,
    data: Data = None,
    price_uc: Price = 100,
    ca: CaFile = None,
    ready_file: ReadyFile = None,
) -> None:
    """Run the market of the network that the invite names."""
    import functools
    import os

    from mobile_worker.clock import SystemClock
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
        base_uc=price_uc,
    )
    report = {"peer_id": identity.peer_id.hex()}
    run_service(functools.partial(run_until_ready, market, ready_file, report))
