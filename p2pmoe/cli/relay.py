"""`p2pmoe relay`: run a network here: relay, market and ledger in one process.

What people need to know, such as the commands to join, goes to stderr; nothing goes to
stdout. SIGTERM drains and ends with 0, an interrupt with 130. Never loads numpy.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from p2pmoe.network.operator import Started
    from relay.tls import SelfSigned, TlsFiles

__all__ = ["register"]

Listen = Annotated[str, typer.Option(help="HOST:PORT, or :PORT for all addresses.")]
SelfSignedFlag = Annotated[
    bool, typer.Option("--self-signed", help="TLS by the relay's own, pinned key.")
]
Cert = Annotated[Path | None, typer.Option(help="Certificate chain (PEM), with --key.")]
Key = Annotated[Path | None, typer.Option(help="Its private key (PEM).")]
BehindFront = Annotated[
    bool, typer.Option("--behind-front", help="A TLS front stands before it.")
]
Open = Annotated[
    bool, typer.Option("--open", help="Admit everybody, not only the invited.")
]
Only = Annotated[
    bool, typer.Option("--only", help="The relay alone: no market, no ledger.")
]
Data = Annotated[Path | None, typer.Option(help="Folder for keys, ledger and invite.")]
OpeningCredit = Annotated[
    int, typer.Option(min=0, max=10**9, help="Credits lent to each new backbone.")
]
Price = Annotated[
    int, typer.Option(min=0, max=10**9, help="Micro-credits for a row of an expert.")
]
PublicUrl = Annotated[
    str | None, typer.Option(help="wss://HOST[:PORT]/relay as members reach it.")
]
Market = Annotated[
    str | None, typer.Option(help="Id of a market run elsewhere (64 hex digits).")
]
Ledger = Annotated[
    str | None, typer.Option(help="Id of a ledger run elsewhere (64 hex digits).")
]
ReadyFile = Annotated[
    Path | None, typer.Option(help="Write address and invite here once all is up.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("relay")(_relay)


def _relay(
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
    """Run a network's relay, market and ledger, and write the invite to join it."""
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
    tell = functools.partial(_tell, ready_file=ready_file, only=only)
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


def _tell(started: "Started", *, ready_file: Path | None, only: bool) -> None:
    from p2pmoe.network.running import write_ready_file

    host, port = started.relay.addresses[0]
    lines = [
        f"relay {started.endpoint} listens on {host}:{port}",
        f"invite for members: {started.invite} (keep it among them)",
    ]
    if only:
        lines += [
            f"market {started.market.hex()}, on its machine:",
            f"    p2pmoe market --invite {started.invite}",
            f"ledger {started.ledger.hex()}, on its machine:",
            f"    p2pmoe ledgerd --invite {started.invite}",
        ]
    lines += [
        "to serve a model:",
        f"    p2pmoe serve MODEL --invite {started.invite}",
        "to contribute a machine:",
        f"    p2pmoe contribute --invite {started.invite}",
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
