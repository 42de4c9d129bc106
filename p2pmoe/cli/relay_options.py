"""The options of `p2pmoe relay`, each with what `--help` says of it."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Acme",
    "AcmeCa",
    "AcmeEmail",
    "AcmeListen",
    "AcmeServer",
    "BehindFront",
    "Blobs",
    "Cert",
    "Data",
    "Key",
    "Ledger",
    "Limits",
    "Listen",
    "Market",
    "MetricsTokenFile",
    "NeutralPage",
    "Only",
    "Open",
    "OpeningCredit",
    "Price",
    "PriceEpoch",
    "PublicUrl",
    "ReadyFile",
    "SelfSignedFlag",
    "Shard",
    "StandbyPay",
    "TrustedProxy",
]

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
Acme = Annotated[
    list[str] | None,
    typer.Option(
        "--acme",
        metavar="DOMAIN",
        help="Fetch and renew a certificate of this domain from the ACME authority, "
        "whose terms you agree to; repeatable. Needs the extra p2pmoe[acme].",
    ),
]
AcmeEmail = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Where the authority may write to.")
]
AcmeServer = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Its directory; that of Let's Encrypt else."),
]
AcmeListen = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Where its port 80 requests arrive.")
]
AcmeCa = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="PEM of what signs its own certificate."),
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
        help="Micro-credits for a row of an expert, on average.",
    ),
]
PriceEpoch = Annotated[
    int,
    typer.Option(
        min=2,
        max=86_400,
        metavar="SECONDS",
        help="How long prices hold before they follow scarcity.",
    ),
]
StandbyPay = Annotated[
    str,
    typer.Option(
        "--standby",
        metavar="CREDITS",
        help="What held replicas get for one epoch in all, called or not.",
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
Limits = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Limits by rate class (TOML), read anew at SIGHUP.",
    ),
]
TrustedProxy = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CIDR",
        help="A front elsewhere whose X-Forwarded-For is believed; repeatable.",
    ),
]
Shard = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=9999,
        metavar="N",
        help="Serve the path /relay/N alone, behind a front that routes by path.",
    ),
]
MetricsTokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with the bearer token that opens /metrics to others than loopback.",
    ),
]
NeutralPage = Annotated[
    bool,
    typer.Option("--neutral-page", help="No status page: / says nothing."),
]
Blobs = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Disk for shards that the relay hands out under /blob/; 0 for none.",
    ),
]
