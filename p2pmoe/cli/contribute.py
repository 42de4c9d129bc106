"""`p2pmoe contribute`: give memory and compute to a network, and earn for it.

Shows what it will use and asks once, unless `--yes` or without a terminal. States and
figures go to stderr (`--json`: to stdout). SIGTERM drains and ends with 0, an interrupt
drains and ends with 130, a second signal ends at once.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.authority import CaFile, use_authorities

if TYPE_CHECKING:
    from mobile_worker.contribute.service import Started
    from mobile_worker.contribute.settings import ContributeSettings
    from p2pmoe.cli.contribute_limits import Budget
    from p2pmoe.network.invite import Invite
    from relay.endpoint import Endpoint
    from relay.keys import PeerId

__all__ = ["network_of", "register"]

Url = Annotated[
    str | None,
    typer.Argument(metavar="URL", help="wss://HOST/relay#ID of an open network."),
]
InviteFile = Annotated[
    Path | None,
    typer.Option("--invite", metavar="FILE", help="Invite file; else P2PMOE_INVITE."),
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="quiet (1 processor, on mains, gives way to other work), balanced or max; "
        "else as `p2pmoe limits` says, and without a word quiet, for a hub max.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory for experts, like 512M or 1.5G; else by the limits.",
    ),
]
Disk = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Disk for shards, like 2G; else by the limits."),
]
Hub = Annotated[bool, typer.Option("--hub", help="A fast peer with direct links.")]
Listen = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="HOST:PORT for direct links, with --hub."),
]
Advertise = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS", help="HOST:PORT that others reach it by."),
]
Lan = Annotated[
    bool,
    typer.Option("--lan", help="Find peers on the local network; direct links there."),
]
Data = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder for key, shards, vouchers."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Domain = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Failure domain; what fails together shares one."
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Threads that compute calls, 1 to 4 a processor, else by the limits; the "
        "native kernel alone shares one call among them.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Report as JSON lines on stdout.")]
Page = Annotated[
    str,
    typer.Option(
        metavar="PORT", help="Of its page on 127.0.0.1, if it is free; off: none."
    ),
]
ReadyFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the peer id here once it has joined."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("contribute")(_contribute)


def _contribute(
    url: Url = None,
    invite: InviteFile = None,
    ca: CaFile = None,
    preset: Preset = None,
    memory: Memory = None,
    disk: Disk = None,
    hub: Hub = False,
    listen: Listen = None,
    advertise: Advertise = None,
    lan: Lan = False,
    data: Data = None,
    yes: Yes = False,
    domain: Domain = None,
    threads: Threads = None,
    page: Page = "8377",
    as_json: AsJson = False,
    ready_file: ReadyFile = None,
) -> None:
    """Serve experts from this machine's memory, and earn for it."""
    from mobile_worker.contribute import machine
    from mobile_worker.contribute.settings import ContributeSettings
    from p2pmoe.cli.computing import wanted_kernel
    from p2pmoe.cli.contribute_limits import Asked, budget_of
    from p2pmoe.cli.data_folders import worker_folder

    use_authorities(ca)
    (endpoint, *further), token, network = network_of(url, invite)
    folder = data or worker_folder()
    asked = Asked(is_hub=hub, preset=preset, memory=memory, disk=disk, threads=threads)
    budget = budget_of(folder, machine.this_machine(), asked)
    _settle_down(budget)
    settings = ContributeSettings(
        data=folder,
        endpoint=endpoint,
        further=tuple(further),
        token=token,
        network=network,
        memory_bytes=budget.memory_bytes,
        disk_bytes=budget.disk_bytes,
        domain=_domain(domain) or machine.default_domain(),
        hub=hub,
        listen=_listen(listen, hub=hub),
        advertise=_advertised(advertise or [], hub=hub),
        lan=_lan(wanted=lan),
        n_threads=budget.n_threads,
        kernel=wanted_kernel(),
        limits=budget.limits,
    )
    settings = _ask(settings, budget, yes=yes)
    _work(settings, page_port=_port(page), as_json=as_json, ready_file=ready_file)


def _settle_down(budget: "Budget") -> None:
    """Do what must come before there are other threads.

    Numpy starts some when it is loaded, the asking of the sensors another.
    """
    from mobile_worker.contribute.trimming import share_one_arena
    from mobile_worker.governor.presets import MANNERS
    from mobile_worker.governor.priority import be_nice

    be_nice(MANNERS[budget.limits.preset].nice)
    share_one_arena()


def _work(
    settings: "ContributeSettings",
    *,
    page_port: int | None,
    as_json: bool,
    ready_file: Path | None,
) -> None:
    import logging
    from functools import partial

    import trio

    from mobile_worker.contribute.process import run_worker
    from mobile_worker.contribute.service import Hooks
    from mobile_worker.governor.sensors import SystemSensors
    from p2pmoe.cli.contribute_view import open_view
    from p2pmoe.contributor.beside import Beside
    from p2pmoe.network.running import log_to_stderr

    log_to_stderr(logging.WARNING)  # the view says the rest
    with open_view(as_json=as_json) as view:
        hooks = Hooks(
            report=view,
            sensors=lambda clock: SystemSensors(clock=clock),
            started=partial(_tell, ready_file=ready_file),
            beside=Beside(folder=settings.data, page_port=page_port).run,
        )
        exit_code = trio.run(run_worker, settings, hooks)
    raise typer.Exit(exit_code)


def network_of(
    url: str | None, invite: Path | None
) -> "tuple[tuple[Endpoint, ...], bytes, PeerId | None]":
    """Return relays, token and network: of the invite, or of an open relay's URL."""
    import os

    from p2pmoe.errors import ConfigurationError
    from p2pmoe.network.invite import INVITE_VARIABLE, find_invite
    from relay.endpoint import parse_endpoint

    if url is None:
        member: Invite = find_invite(invite, os.environ)
        return member.relays, member.token, member.network
    if "://" not in url and Path(url).is_file():
        raise ConfigurationError(
            f"{url} is a file, not a relay's URL",
            advice=f"if it is an invite: p2pmoe contribute --invite {url}",
        )
    endpoint = parse_endpoint(url)
    if invite is None and INVITE_VARIABLE not in os.environ:
        return (endpoint,), b"", None
    member = find_invite(invite, os.environ)
    if endpoint.relay_id not in (None, *(each.relay_id for each in member.relays)):
        raise ConfigurationError(
            f"the URL's relay is not the one of the invite ({member.relay.url})",
            advice="give either the URL or --invite",
        )
    return member.relays, member.token, member.network


def _domain(domain: str | None) -> str | None:
    from p2pmoe.errors import ConfigurationError

    if domain is not None and not (0 < len(domain) <= 100 and domain.isprintable()):
        raise ConfigurationError(
            f"--domain {domain[:40]!r} is not 1 to 100 printable characters"
        )
    return domain


def _listen(listen: str | None, *, hub: bool) -> str | None:
    from p2pmoe.config import parse_listen
    from p2pmoe.errors import ConfigurationError

    if hub != (listen is not None):
        raise ConfigurationError(
            "--hub and --listen belong together",
            advice="a hub takes direct links: --hub --listen 0.0.0.0:7070",
        )
    if listen is not None:
        parse_listen(listen)
    return listen


def _advertised(addresses: list[str], *, hub: bool) -> tuple[str, ...]:
    from mobile_worker.links.dialling import split_address
    from mobile_worker.session.records import MAX_ADDRESSES
    from p2pmoe.errors import ConfigurationError

    if addresses and not hub:
        raise ConfigurationError(
            "--advertise is for a --hub alone", advice="add --hub --listen HOST:PORT"
        )
    if len(addresses) > MAX_ADDRESSES:
        raise ConfigurationError(
            f"--advertise is given more than {MAX_ADDRESSES} times"
        )
    for address in addresses:
        if not address.isprintable() or " " in address or len(address) > 100:
            raise ConfigurationError(f"--advertise {address[:40]!r} is no HOST:PORT")
        split_address(address)
    return tuple(addresses)


def _port(page: str) -> int | None:
    from p2pmoe.errors import ConfigurationError

    if page == "off":
        return None
    if not (page.isascii() and page.isdigit() and int(page) < 1 << 16):
        raise ConfigurationError(
            f"--page {page[:40]!r} is no port", advice="give one, 0 for any, or off"
        )
    return int(page)


def _lan(*, wanted: bool) -> bool:
    from p2pmoe.cli.extras import check_extra

    if wanted:
        check_extra("lan")
    return wanted


def _ask(
    settings: "ContributeSettings", budget: "Budget", *, yes: bool
) -> "ContributeSettings":
    """Show what will be used and ask once; return the settings, as answered."""
    from dataclasses import replace

    from p2pmoe.cli.contribute_limits import (
        ask_unknown,
        first_readings,
        limits_line,
        unknown_of,
    )
    from p2pmoe.cli.sizes import format_size

    lines = [
        f"this machine will serve experts through {settings.endpoint.url}, using",
        f"  memory  up to {format_size(settings.memory_bytes)}",
        f"  disk    up to {format_size(settings.disk_bytes)} in {settings.data}",
        f"  compute {settings.n_threads} thread{'s' if settings.n_threads > 1 else ''}",
        f"  limits  {limits_line(settings.limits)}",
    ]
    if settings.listen:
        lines.append(f"  direct links on {settings.listen}")
    if settings.lan:
        lines.append("  direct links on the local network, announced there")
    print("\n".join(lines), file=sys.stderr, flush=True)
    asks = not yes and sys.stdin.isatty()
    unknown = unknown_of(settings.limits, first_readings())
    limits = ask_unknown(budget, settings.limits_file, unknown, asks=asks)
    if asks and not typer.confirm("Go on?", default=True, err=True):
        raise typer.Exit(0)
    return replace(settings, limits=limits)


def _tell(started: "Started", *, ready_file: Path | None) -> None:
    from p2pmoe.network.running import write_ready_file

    lines = (f"computing with {started.kernel}", f"worker id {started.peer_id.hex()}")
    print("\n".join(lines), file=sys.stderr, flush=True)
    report = {
        "peer_id": started.peer_id.hex(),
        "kernel": started.kernel,
        "direct_addresses": list(started.direct_addresses),
    }
    write_ready_file(ready_file, report)
