"""`p2pmoe relay`: run a network here: relay, market and ledger in one process.

A group of commands that runs a relay when none of them is named; what looks at relays
from outside, `p2pmoe relay probe`, has a file of its own.

What people need to know, such as the commands to join, goes to stderr; nothing goes to
stdout. SIGTERM drains and ends with 0, an interrupt with 130; SIGHUP has limits,
revocations, relay map and certificate read anew. Never loads numpy.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from p2pmoe.cli import relay_probe
from p2pmoe.cli.relay_options import (
    Acme,
    AcmeCa,
    AcmeEmail,
    AcmeListen,
    AcmeServer,
    BehindFront,
    Blobs,
    Cert,
    Data,
    Key,
    Ledger,
    Limits,
    Listen,
    Market,
    MetricsTokenFile,
    NeutralPage,
    Only,
    Open,
    OpeningCredit,
    Price,
    PriceEpoch,
    PublicUrl,
    ReadyFile,
    SelfSignedFlag,
    Shard,
    StandbyPay,
    TrustedProxy,
)

if TYPE_CHECKING:
    from p2pmoe.market.price import PriceSettings
    from p2pmoe.network.acme.settings import AcmeSettings
    from p2pmoe.network.operator import OperatorConfig
    from relay.fronts import ProxyNetwork
    from relay.keys import PeerId
    from relay.tls import SelfSigned, TlsFiles

__all__ = ["register"]

_MAX_TOKEN_FILE_BYTES = 1024


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(rich_markup_mode=None)
    group.callback(invoke_without_command=True)(_relay)
    relay_probe.register(group)
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
    price_epoch: PriceEpoch = 600,
    standby: StandbyPay = "0",
    public_url: PublicUrl = None,
    market: Market = None,
    ledger: Ledger = None,
    ready_file: ReadyFile = None,
    limits: Limits = None,
    trusted_proxy: TrustedProxy = None,
    shard: Shard = None,
    neutral_page: NeutralPage = False,
    blobs: Blobs = "1G",
    metrics_token_file: MetricsTokenFile = None,
    acme: Acme = None,
    acme_email: AcmeEmail = "",
    acme_server: AcmeServer = None,
    acme_listen: AcmeListen = ":80",
    acme_ca: AcmeCa = None,
) -> None:
    """Run a network: relay, market and ledger; write its invite."""
    if context.invoked_subcommand is not None:
        return
    from ledger.amounts import UC_PER_CREDIT
    from p2pmoe.network.folder import default_folder
    from p2pmoe.network.operator import OperatorConfig

    host, port = _listening(listen, behind_front=behind_front)
    config = OperatorConfig(
        folder=data or default_folder(),
        host=host,
        port=port,
        tls=_tls_of(self_signed, cert, key, behind_front=behind_front, acme=bool(acme)),
        acme=_acme_of(acme, acme_email, acme_server, acme_listen, acme_ca),
        behind_front=behind_front,
        open=open_,
        only=only,
        public_url=public_url,
        market=_service(market),
        ledger=_service(ledger),
        opening_credit_uc=opening_credit * UC_PER_CREDIT,
        prices=_prices(price_uc, price_epoch, standby),
        neutral_page=neutral_page,
        metrics_token=_metrics_token(metrics_token_file),
        limits=limits,
        trusted_proxies=_networks(trusted_proxy or ()),
        shard=shard,
        blob_bytes=_blob_bytes(blobs),
    )
    _run(config, ready_file)


def _run(config: "OperatorConfig", ready_file: Path | None) -> None:
    import functools

    from mobile_worker.clock import SystemClock
    from p2pmoe.cli.relay_report import tell
    from p2pmoe.network.operator import run_operator
    from p2pmoe.network.running import allow_many_files, log_to_stderr, run_service

    log_to_stderr()
    allow_many_files()
    started = functools.partial(tell, config=config, ready_file=ready_file)
    run_service(
        functools.partial(run_operator, config, clock=SystemClock(), started=started)
    )


def _listening(text: str, *, behind_front: bool) -> tuple[str | None, int]:
    """Return host and port; behind a front no host means this one alone."""
    from relay.listening import split_address

    host, port = split_address(text)
    return "127.0.0.1" if behind_front and host is None else host, port


def _prices(base_uc: int, epoch_s: int, standby: str) -> "PriceSettings":
    from ledger.amounts import parse_credits
    from p2pmoe.market.price import PriceSettings

    standby_uc = parse_credits(standby)
    return PriceSettings(base_uc=base_uc, epoch_s=epoch_s, standby_uc=standby_uc)


def _service(text: str | None) -> "PeerId | None":
    from relay.keys import peer_id_from_hex

    return None if text is None else peer_id_from_hex(text)


def _blob_bytes(text: str) -> int:
    from p2pmoe.cli.sizes import parse_size

    return 0 if text.strip() == "0" else parse_size(text, option="--blobs")


def _networks(texts: Iterable[str]) -> "tuple[ProxyNetwork, ...]":
    import ipaddress

    from p2pmoe.errors import ConfigurationError

    advice = "write it as 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32"
    try:
        networks = tuple(ipaddress.ip_network(text.strip()) for text in texts)
    except ValueError as exc:
        message = f"--trusted-proxy: {str(exc)[:200]}"
        raise ConfigurationError(message, advice=advice) from exc
    for network in networks:
        if not network.prefixlen:  # then anybody is any address, and none has a rate
            message = f"--trusted-proxy: {network} believes everybody"
            raise ConfigurationError(message, advice=advice)
    return networks


def _metrics_token(path: Path | None) -> str:
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.network.folder import read_bounded

    if path is None:
        return ""
    token = (read_bounded(path, _MAX_TOKEN_FILE_BYTES) or b"").decode("latin-1").strip()
    if not (token.isascii() and token.isprintable()) or not token:
        raise ConfigurationError(
            f"{path} holds no token for /metrics",
            advice="write one line of letters and digits into it",
        )
    return token


def _acme_of(
    domains: list[str] | None,
    email: str,
    server: str | None,
    listen: str,
    ca_file: Path | None,
) -> "AcmeSettings | None":
    from p2pmoe.cli.extras import check_extra
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.network.acme.settings import LETS_ENCRYPT, AcmeSettings
    from relay.listening import split_address
    from relay.tls import client_context

    if not domains:
        if email or server or ca_file:
            raise ConfigurationError(
                "--acme-email, --acme-server and --acme-ca do nothing without --acme",
                advice="name the relay's domain with --acme, or leave them out",
            )
        return None
    client_context(ca_file)  # a file that is none is said now
    host, port = split_address(listen)
    settings = AcmeSettings(
        domains=tuple(domain.lower() for domain in domains),
        email=email,
        server=server or LETS_ENCRYPT,
        host=host,
        port=port,
        ca_file=ca_file,
    )
    check_extra("acme")
    return settings


def _tls_of(
    self_signed: bool,
    cert: Path | None,
    key: Path | None,
    *,
    behind_front: bool,
    acme: bool,
) -> "TlsFiles | SelfSigned | None":
    from p2pmoe.errors import ConfigurationError
    from relay.tls import SelfSigned, TlsFiles

    ways = "use --self-signed, --cert with --key, --acme, or --behind-front"
    if (cert is None) != (key is None):
        raise ConfigurationError("--cert and --key belong together", advice=ways)
    if sum((self_signed, cert is not None, behind_front, acme)) != 1:
        raise ConfigurationError("a relay needs exactly one kind of TLS", advice=ways)
    if cert is not None and key is not None:
        return TlsFiles(certificate=cert, key=key)
    return SelfSigned() if self_signed else None
