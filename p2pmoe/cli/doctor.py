"""`p2pmoe doctor [URL]`: what stands between this host and a network.

Looks at what computes here, disk, open files and port 443; for a contributor at key,
limits, memory, power, traffic, heat and the worker that runs; and, with an invite or
URL, at proxy, names, IPv4 and IPv6, TLS, the relay, the clock and the token. Each
finding is one line with what to do. Exit code 0 if there is no fault, 1 if there is
one. Changes nothing.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.authority import CaFile, use_authorities
from p2pmoe.cli.relay_probe import InviteFile, Url, relays_of

if TYPE_CHECKING:
    from p2pmoe.doctor.findings import Finding
    from relay.endpoint import Endpoint

__all__ = ["register"]

Data = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Data folder to look at; else the worker's."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("doctor")(_doctor)


def _doctor(
    url: Url = None,
    invite: InviteFile = None,
    ca: CaFile = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Say what keeps this host from joining a network, and what to do."""
    import trio

    from p2pmoe.cli.data_folders import worker_folder
    from p2pmoe.cli.tables import print_json
    from p2pmoe.doctor.findings import Verdict

    folder = data or worker_folder()
    findings = _host(folder) + trio.run(_contributor, folder)
    endpoints, token, found = _membership(url, invite, ca)
    findings += found
    findings += trio.run(_look, endpoints, token)
    if as_json:
        print_json({"findings": [_row(finding) for finding in findings]})
    else:
        _print(findings)
    if any(finding.verdict is Verdict.FAULT for finding in findings):
        raise typer.Exit(1)


def _host(folder: Path) -> "list[Finding]":
    from mobile_worker.arithmetic.errors import KernelUnavailable
    from p2pmoe.cli.computing import wanted_kernel
    from p2pmoe.doctor import machine
    from p2pmoe.doctor.findings import fault_of

    try:
        kernel = machine.kernel(wanted_kernel())
    except KernelUnavailable as error:
        kernel = fault_of("kernel", error)
    limit = machine.file_limit()
    return [kernel, machine.disk(folder), machine.open_files(limit)]


async def _contributor(folder: Path) -> "list[Finding]":
    """Look at what a worker would, or does, say of this machine."""
    import os

    import trio

    from mobile_worker.clock import SystemClock
    from mobile_worker.contribute.machine import this_machine
    from mobile_worker.governor.sensors import SystemSensors
    from p2pmoe.cli.termux import is_termux
    from p2pmoe.doctor import contributor

    limited, limits = contributor.limits(folder)
    findings = [contributor.key(folder), limited]
    if limits is not None:
        clock = SystemClock()
        sensors = SystemSensors(clock)
        sensors.look(clock.monotonic())
        await sensors.ask()
        readings = sensors.look(clock.monotonic())
        findings += [
            contributor.memory(this_machine(), limits),
            contributor.power(readings, limits),
            contributor.metered(readings, limits),
            contributor.heat(readings),
        ]
    if is_termux(sys.platform, os.environ):
        findings.append(contributor.termux())
    findings.append(await trio.to_thread.run_sync(contributor.worker, folder))
    return findings


def _membership(
    url: str | None, invite: Path | None, ca: Path | None
) -> "tuple[tuple[Endpoint, ...], bytes, list[Finding]]":
    """Return relays and token, and what is to be said of both before asking."""
    import datetime as dt
    import os

    from p2pmoe.doctor.findings import Finding, Verdict, fault_of
    from p2pmoe.doctor.membership import token as look_at_token
    from p2pmoe.errors import P2pmoeError
    from p2pmoe.network.invite import INVITE_VARIABLE
    from relay.errors import RelayError

    try:
        use_authorities(ca)
    except RelayError as error:
        return (), b"", [fault_of("tls", error)]
    if url is None and invite is None and not os.environ.get(INVITE_VARIABLE):
        nothing = Finding(
            check="relay",
            verdict=Verdict.NOTE,
            text="no network is named, so none is tried",
            advice="give --invite FILE or a relay's URL",
        )
        return (), b"", [nothing]
    try:
        endpoints, token = relays_of(url, invite)
    except (RelayError, P2pmoeError) as error:
        return (), b"", [fault_of("token" if url is None else "relay", error)]
    return endpoints, token, [look_at_token(token, dt.datetime.now(dt.UTC))]


async def _look(endpoints: "tuple[Endpoint, ...]", token: bytes) -> "list[Finding]":
    """Look at the relays side by side, and at the port of one of our own."""
    import trio

    from mobile_worker.clock import SystemClock
    from p2pmoe.doctor.machine import relay_port
    from p2pmoe.doctor.way import look_at_relay
    from relay.client import ClientSettings

    wall_us = SystemClock().wall_us
    found: dict[int, list[Finding]] = {}

    async def look(number: int, endpoint: "Endpoint") -> None:
        settings = ClientSettings()
        found[number] = await look_at_relay(endpoint, token, wall_us, settings)

    async with trio.open_nursery() as nursery:
        for number, endpoint in enumerate(endpoints):
            nursery.start_soon(look, number, endpoint)
        found[-1] = [await relay_port()]
    return [finding for number in sorted(found) for finding in found[number]]


def _row(finding: "Finding") -> dict[str, object]:
    return {
        "verdict": finding.verdict.value,
        "check": finding.check,
        "finding": finding.text,
        "advice": finding.advice,
    }


def _print(findings: "list[Finding]") -> None:
    from p2pmoe.cli.complaints import sentence
    from p2pmoe.cli.tables import is_on_terminal, print_rows

    if not is_on_terminal():
        rows = [_row(finding) for finding in findings]
        print_rows(("verdict", "check", "finding", "advice"), rows)
        return
    for finding in findings:
        line = sentence(finding.text, finding.advice)
        print(f"{finding.verdict.value:<8} {finding.check:<7} {line}")
    faults = sum(finding.verdict.value == "fault" for finding in findings)
    print("no fault found" if not faults else f"faults: {faults}", file=sys.stderr)
