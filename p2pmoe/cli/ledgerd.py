"""`p2pmoe ledgerd`: run a network's ledger as a process of its own.

The relay runs with `--only` and names this ledger by its id. SIGTERM ends it with 0, an
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
    typer.Option(
        metavar="FOLDER", help="Folder of ledger.identity and the store, ledger/."
    ),
]
OpeningCredit = Annotated[
    int,
    typer.Option(
        min=0,
        max=10**9,
        metavar="CREDITS",
        help="What each new backbone is lent; without it none can pay a worker.",
    ),
]
PaidEvery = Annotated[
    float,
    typer.Option(
        min=1,
        max=600,
        metavar="SECONDS",
        help="How often the market is told which experts were paid for.",
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
    app.command("ledgerd")(_ledgerd)


def _ledgerd(
    invite: InviteFile = None,
    data: Data = None,
    opening_credit: OpeningCredit = 0,
    paid_every: PaidEvery = 60,
    ca: CaFile = None,
    ready_file: ReadyFile = None,
) -> None:
    """Run the ledger of the network that the invite names."""
    import functools
    import os

    from ledger.amounts import UC_PER_CREDIT
    from mobile_worker.clock import SystemClock
    from p2pmoe.network.folder import OperatorFolder, Service, default_folder
    from p2pmoe.network.invite import find_invite
    from p2pmoe.network.running import log_to_stderr, run_service, run_until_ready
    from p2pmoe.network.services import LedgerChoices, membership_of, run_ledger

    log_to_stderr()
    use_authorities(ca)
    member = find_invite(invite, os.environ)
    folder = OperatorFolder(data or default_folder())
    identity = folder.identity(Service.LEDGER)
    ledger = functools.partial(
        run_ledger,
        membership_of(member, identity),
        folder.ledger,
        clock=SystemClock(),
        choices=LedgerChoices(
            opening_credit_uc=opening_credit * UC_PER_CREDIT, paid_every_s=paid_every
        ),
    )
    report = {"peer_id": identity.peer_id.hex(), "store": str(folder.ledger)}
    run_service(functools.partial(run_until_ready, ledger, ready_file, report))
