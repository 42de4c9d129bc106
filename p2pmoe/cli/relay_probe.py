"""`p2pmoe relay probe [URL]`: how a relay is reached from here, and how frames fare.

Without URL the relays of the invite are probed, one after the other. Exit code 0 if all
is well, 1 if frames were dropped or a certificate is about to expire, 2 if a relay
cannot be reached or does not let us in. Changes nothing: a peer made for it joins and
sends frames to itself.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.authority import CaFile, use_authorities

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from p2pmoe.probe.report import ProbePlan, RelayReport
    from relay.endpoint import Endpoint

__all__ = ["InviteFile", "Url", "register", "relays_of"]

_BAR_CELLS = 40

Url = Annotated[
    str | None,
    typer.Argument(metavar="URL", help="wss://HOST/relay[#ID]; else the invite's."),
]
InviteFile = Annotated[
    Path | None,
    typer.Option("--invite", metavar="FILE", help="Invite file; else P2PMOE_INVITE."),
]
Frames = Annotated[int, typer.Option(metavar="N", help="How many frames to send.")]
Rate = Annotated[float, typer.Option(metavar="N", help="Frames a second.")]
Size = Annotated[int, typer.Option(metavar="BYTES", help="Bytes of a frame.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(group: typer.Typer) -> None:
    """Add the command to the group `relay`."""
    group.command("probe")(_probe)


def _probe(
    url: Url = None,
    invite: InviteFile = None,
    frames: Frames = 500,
    rate: Rate = 100.0,
    size: Size = 260,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure a relay: latency, queue delay, drops, certificate."""
    import datetime as dt

    import trio

    from p2pmoe.probe.report import ProbePlan
    from relay.errors import RelayError

    use_authorities(ca)
    plan = ProbePlan(n_frames=frames, frames_s=rate, frame_bytes=size)
    endpoints, token = relays_of(url, invite)
    found: list[tuple[Endpoint, RelayReport | RelayError]] = []
    for endpoint in endpoints:
        try:
            found.append((endpoint, trio.run(_measure, endpoint, token, plan)))
        except RelayError as error:
            if len(endpoints) == 1:
                raise
            found.append((endpoint, error))
    now = dt.datetime.now(dt.UTC)
    _print(found, now, as_json=as_json)
    reports = [each for _, each in found if not isinstance(each, RelayError)]
    if len(reports) < len(found):
        raise typer.Exit(2)
    if any(report.problems(now) for report in reports):
        raise typer.Exit(1)


async def _measure(
    endpoint: "Endpoint", token: bytes, plan: "ProbePlan"
) -> "RelayReport":
    from mobile_worker.clock import SystemClock
    from p2pmoe.probe.measure import probe_relay, visitor

    wall_us = SystemClock().wall_us
    return await probe_relay(endpoint, visitor(token), plan, wall_us=wall_us)


def relays_of(
    url: str | None, invite: Path | None
) -> "tuple[tuple[Endpoint, ...], bytes]":
    """Return the relays that are meant, and the token that an invite has for them.

    Raises:
        ConfigurationError: neither URL nor invite is given, or the invite is no good.
        EndpointError: the URL is none.
    """
    import os

    from p2pmoe.network.invite import INVITE_VARIABLE, find_invite
    from relay.endpoint import parse_endpoint

    if url is not None and invite is None and not os.environ.get(INVITE_VARIABLE):
        return (parse_endpoint(url),), b""
    member = find_invite(invite, os.environ)
    if url is None:
        return member.relays, member.token
    given = parse_endpoint(url)
    known = next((each for each in member.relays if each.url == given.url), given)
    # A pin that the URL names holds; a token goes to relays of the invite alone.
    is_member = given.relay_id in (None, known.relay_id) and known in member.relays
    return ((known if is_member else given),), member.token if is_member else b""


def _print(
    found: "Sequence[tuple[Endpoint, RelayReport | Exception]]",
    now: "dt.datetime",
    *,
    as_json: bool,
) -> None:
    from p2pmoe.cli.complaints import complaint_of
    from p2pmoe.cli.tables import print_json

    documents: list[dict[str, object]] = []
    for endpoint, each in found:
        if isinstance(each, Exception):
            complaint = complaint_of(each)
            line = complaint.line if complaint else str(each)
            documents.append({"relay": endpoint.url, "error": line})
            print(f"error: {line}", file=sys.stderr)
            continue
        documents.append(_document(each, now))
        if not as_json:
            _print_report(each, now)
        for problem in each.problems(now):
            print(f"warning: {each.route.remote}: {problem}", file=sys.stderr)
    if as_json:
        print_json({"relays": documents})


def _document(report: "RelayReport", now: "dt.datetime") -> dict[str, object]:
    from p2pmoe.probe.delays import histogram, queue_delays

    frames, route, certificate = report.frames, report.route, report.route.certificate
    left = report.certificate_left(now)
    return {
        "relay": report.url,
        "relay_id": report.welcome.relay_id.hex(),
        "remote": route.remote,
        "proxy": route.proxy or None,
        "tls": route.tls_version or None,
        "certificate": certificate
        and {
            "issuer": certificate.issuer,
            "subject": certificate.subject,
            "not_after": certificate.not_after.isoformat(),
            "days_left": None if left is None else left.days,
            "is_pinned_key": report.is_pinned_key,
        },
        "tcp_ms": route.tcp_s * 1000,
        "proxy_ms": route.proxy_s * 1000,
        "tls_ms": route.tls_s * 1000,
        "joined_ms": report.joined_s * 1000,
        "clock_skew_s": report.welcome.skew_us / 1e6,
        "map_version": report.welcome.map_version,
        "n_sent": frames.n_sent,
        "n_back": frames.n_back,
        "n_lost": frames.n_lost,
        "dropped": {r.name.lower(): n for r, n in sorted(frames.dropped.items())},
        "round_trip_ms": {
            "least": frames.percentile_ms(0),
            "p50": frames.percentile_ms(0.5),
            "p99": frames.percentile_ms(0.99),
            "most": frames.percentile_ms(1),
        },
        "longest_at_relay_ms": frames.longest_age_ms,
        "queue_delay": [
            {
                "from_ms": bucket.from_ms,
                "to_ms": bucket.to_ms if bucket.to_ms < 1e9 else None,
                "frames": bucket.count,
            }
            for bucket in histogram(queue_delays(frames.round_trips_s))
        ],
        "problems": report.problems(now),
    }


def _print_report(report: "RelayReport", now: "dt.datetime") -> None:
    from p2pmoe.cli.tables import print_rows, print_values
    from p2pmoe.probe.delays import histogram, queue_delays

    print_values(_values(report, now))
    buckets = histogram(queue_delays(report.frames.round_trips_s))
    most = max((bucket.count for bucket in buckets), default=1)
    rows = [
        {
            "queue delay": bucket.label,
            "frames": bucket.count,
            "picture": _bar(bucket.count, most),
        }
        for bucket in buckets
    ]
    print_rows(("queue delay", "frames", "picture"), rows)


def _bar(count: int, most: int) -> str:
    """Return a bar as long as the count is large; one that is not 0 can be seen."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    cell = "\N{FULL BLOCK}" if encoding.lower().startswith("utf") else "#"
    return cell * -(-count * _BAR_CELLS // most)


def _values(report: "RelayReport", now: "dt.datetime") -> dict[str, object]:
    route, frames = report.route, report.frames
    reached = f"tcp {route.tcp_s * 1000:.2f} ms"
    if route.proxy:
        reached += f", proxy {route.proxy_s * 1000:.2f} ms"
    if route.tls_version:
        reached += f", {route.tls_version} {route.tls_s * 1000:.2f} ms"
    values: dict[str, object] = {
        "relay": report.url.partition("#")[0],
        "id": report.welcome.relay_id.hex(),
        "address": route.remote + (" (a proxy)" if route.proxy else ""),
        "reached": f"{reached}; joined after {report.joined_s * 1000:.2f} ms",
        "certificate": _certificate(report, now),
        "clock": f"this host is {_skew(report.welcome.skew_us)}",
        "frames": f"{frames.n_sent} sent, {frames.n_back} back, {frames.n_dropped} "
        f"dropped, {frames.n_lost} unanswered",
    }
    if frames.n_back:
        figures = [frames.percentile_ms(share) for share in (0, 0.5, 0.99, 1)]
        shown = zip(("least", "p50", "p99", "most"), figures, strict=True)
        values["round trip"] = ", ".join(f"{n} {ms:.2f} ms" for n, ms in shown)
        values["at the relay"] = f"at most {frames.longest_age_ms} ms"
    return values


def _skew(skew_us: int) -> str:
    if abs(skew_us) < 500_000:
        return "right within half a second"
    return f"{abs(skew_us) / 1e6:.1f} s {'ahead' if skew_us > 0 else 'behind'}"


def _certificate(report: "RelayReport", now: "dt.datetime") -> str:
    certificate, left = report.route.certificate, report.certificate_left(now)
    if certificate is None:
        return "none: not encrypted"
    if left is None:
        return "the relay's own key, as pinned"
    return f"of {certificate.issuer}, good for {left.days} days"
