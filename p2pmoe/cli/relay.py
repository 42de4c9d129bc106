"""`p2pmoe relay`: run a network here: relay, market and ledger in one process.

A group of commands that runs a relay when none of them is named; what looks at relays
from outside, such as `p2pmoe relay probe`, has a file of its own, listed in `_GROUP`.

What people need to know, such as the commands to join, goes to stderr; nothing goes to
stdout. SIGTERM drains and ends with 0, an interrupt with 130. Never loads numpy.
"""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from p2pmoe.network.operator import OperatorConfig, Started
    from relay.tls import SelfSigned, TlsFiles

__all__ = ["register"]

Listen = Annotated[
    str, typer.Option(metavar="ADDRESS", help="HOST:PORT, or :PORT for all addresses.")
]
SelfSignedFlag = Annotated[
    bool, typer.Option("--self-signed", help="TLS by the relay's own, pinned key.")
]
Cert = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Certificate chain (PEM), with --key."),
]
Key = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Its private key (PEM).")
]
BehindFront = Annotated[
    bool,
    typer.Option("--behind-front", help="A TLS front stands before it: --public-url."),
]
Open = Annotated[
    bool, typer.Option("--open", help="Admit everybody, not only the invited.")
]
Only = Annotated[
    bool, typer.Option("--only", help="The relay alone: no market, no ledger.")
]
Data = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder for keys, ledger and invite."),
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
Price = Annotated[
    int,
    typer.Option(
        min=0,
        max=10**9,
        metavar="PRICE",
        help="Micro-credits for a row of an expert.",
    ),
]
PublicUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="wss://HOST[:PORT]/relay as members reach it."),
]
Market = Annotated[
    str | None,
    typer.Option(metavar="ID", help="With --only: a market run elsewhere (64 hex)."),
]
Ledger = Annotated[
    str | None,
    typer.Option(metavar="ID", help="With --only: a ledger run elsewhere (64 hex)."),
]
ReadyFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write address and invite here once all is up."),
]


# Modules of this package that add a command to the group by `register(group)`.
_GROUP: tuple[str, ...] = ("relay_probe",)


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(rich_markup_mode=None)
    group.callback(invoke_without_command=True)(_relay)
    for module in _GROUP:
        importlib.import_module(f"p2pmoe.cli.{module}").register(group)
    app.add_typer(group, name="relay")


def _relay(
    context: typer.Context,
    listen: Listen = ":443",
    self_signed: SelfSignedFlag = False,
    cert: Cert = None,
    key: Key = None,
    behind_front: BehindFront = False,
    open_: Open = False,
    only: Only = False,
    data: Data = None,
    opening_credit: OpeningCredit = 0,
    price_uc: Price = 100,
    public_url: PublicUrl = None,
    market: Market = None,
    ledger: Ledger = None,
    ready_file: ReadyFile = None,
) -> None:
    """Run a network: relay, market and ledger; write its invite."""
    if context.invoked_subcommand is not None:
        return
    import functools

    from ledger.amounts import UC_PER_CREDIT
    from mobile_worker.clock import SystemClock
    from p2pmoe.network.folder import default_folder
    from p2pmoe.network.operator import OperatorConfig, run_operator
    from p2pmoe.network.running import log_to_stderr, run_service
    from relay.keys import peer_id_from_hex
    from relay.listening import split_address

    log_to_stderr()
    host, port = split_address(listen)
    config = OperatorConfig(
        folder=data or default_folder(),
        host="127.0.0.1" if behind_front and host is None else host,
        port=port,
        tls=_tls_of(self_signed, cert, key, behind_front=behind_front),
        behind_front=behind_front,
        open=open_,
        only=only,
        public_url=public_url,
        market=None if market is None else peer_id_from_hex(market),
        ledger=None if ledger is None else peer_id_from_hex(ledger),
        opening_credit_uc=opening_credit * UC_PER_CREDIT,
        base_uc=price_uc,
    )
    tell = functools.partial(_tell, config=config, ready_file=ready_file)
    run_service(
        functools.partial(run_operator, config, clock=SystemClock(), started=tell)
    )


def _tls_of(
    self_signed: bool, cert: Path | None, key: Path | None, *, behind_front: bool
) -> "TlsFiles | SelfSigned | None":
    from p2pmoe.errors import ConfigurationError
    from relay.tls import SelfSigned, TlsFiles

    ways = "use --self-signed, or --cert with --key, or --behind-front"
    if (cert is None) != (key is None):
        raise ConfigurationError("--cert and --key belong together", advice=ways)
    if sum((self_signed, cert is not None, behind_front)) != 1:
        raise ConfigurationError("a relay needs exactly one kind of TLS", advice=ways)
    if cert is not None and key is not None:
        return TlsFiles(certificate=cert, key=key)
    return SelfSigned() if self_signed else None


def _tell(
    started: "Started", *, config: "OperatorConfig", ready_file: Path | None
) -> None:
    from p2pmoe.network.running import write_ready_file

    host, port = started.relay.addresses[0]
    lines = [
        f"relay {started.endpoint} listens on {host}:{port}",
        f"invite for members: {started.invite} (keep it among them)",
        *(_services(started, config) if config.only else _money(config)),
        *_next_steps(started, config),
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)
    report = {
        "listen": [host, port],
        "relay_id": started.relay.relay_id.hex(),
        "invite": str(started.invite.resolve()),
        "relay": str(started.endpoint),
        "market": started.market.hex(),
        "ledger": started.ledger.hex(),
    }
    write_ready_file(ready_file, report)


def _services(started: "Started", config: "OperatorConfig") -> list[str]:
    """Say how to start what this process does not run."""
    folder, invite = config.folder, started.invite
    return [
        f"market {started.market.hex()}, to start it:",
        f"    p2pmoe market --invite {invite} --data {folder}"
        if config.market is None
        else f"    p2pmoe market --invite {invite}, where it has its folder",
        f"ledger {started.ledger.hex()}, to start it:",
        f"    p2pmoe ledgerd --invite {invite} --data {folder} --opening-credit 100"
        if config.ledger is None
        else f"    p2pmoe ledgerd --invite {invite}, where it has its folder",
    ]


def _money(config: "OperatorConfig") -> list[str]:
    """Say what a backbone can pay with."""
    from ledger.amounts import UC_PER_CREDIT

    if config.opening_credit_uc:
        amount = config.opening_credit_uc // UC_PER_CREDIT
        return [f"credit: each new backbone is lent {amount} to pay workers with"]
    return [
        "credit: none, so no backbone can pay a worker and none will serve it;",
        "    stop this and start it with --opening-credit 100 to lend each one some",
    ]


def _next_steps(started: "Started", config: "OperatorConfig") -> list[str]:
    lines = [
        "to serve a model:",
        f"    p2pmoe serve MODEL --invite {started.invite}",
        "to contribute a machine:",
        f"    p2pmoe contribute --invite {started.invite}",
    ]
    if config.open:
        lines += [
            "it is open, so that the URL does instead of the invite:",
            f"    p2pmoe serve MODEL --relay {started.endpoint}",
            f"    p2pmoe contribute {started.endpoint}",
        ]
    if not config.only:
        lines += [
            "to see who earned what:",
            f"    p2pmoe ledger statement --data {config.folder}",
        ]
    return lines
