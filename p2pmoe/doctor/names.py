"""How a relay's host is found: its addresses, and which kind of them answers.

IPv4 and IPv6 are tried by themselves, with no race, so that a dead one is seen which
the race of a real connection would hide.
"""

import socket
from dataclasses import dataclass
from typing import Final

import trio

from p2pmoe.doctor.findings import Finding, Verdict
from relay.endpoint import Endpoint

__all__ = ["Addresses", "families", "lookup"]

_LOOKUP_S: Final = 5.0
_SLOW_LOOKUP_S: Final = 1.0
_CONNECT_S: Final = 3.0
_MAX_ADDRESSES: Final = 3  # of each kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """A host's addresses by kind."""

    ipv4: tuple[str, ...] = ()
    ipv6: tuple[str, ...] = ()


async def lookup(endpoint: Endpoint) -> tuple[Finding, Addresses]:
    """Ask the resolver for the relay's host."""
    host = endpoint.host
    began = trio.current_time()
    try:
        with trio.fail_after(_LOOKUP_S):
            found = await trio.socket.getaddrinfo(
                host, endpoint.port, type=socket.SOCK_STREAM
            )
    except (OSError, UnicodeError):
        return _unknown(f"the host name {host} is not known here"), Addresses()
    except trio.TooSlowError:
        return _unknown(f"no answer about {host} within {_LOOKUP_S:g} s"), Addresses()
    took_s = trio.current_time() - began
    by_kind: dict[int, list[str]] = {socket.AF_INET: [], socket.AF_INET6: []}
    for family, _, _, _, sockaddr in found:
        address = str(sockaddr[0])
        if address not in by_kind.setdefault(family, []):
            by_kind[family].append(address)
    addresses = Addresses(
        ipv4=tuple(by_kind[socket.AF_INET]), ipv6=tuple(by_kind[socket.AF_INET6])
    )
    shown = ", ".join((addresses.ipv4 + addresses.ipv6)[:4])
    if took_s > _SLOW_LOOKUP_S:
        return Finding(
            check="dns",
            verdict=Verdict.WARNING,
            text=f"{host} is {shown}, which took {took_s:.1f} s to learn",
            advice="a name server of this host does not answer: see /etc/resolv.conf",
        ), addresses
    text = f"{host} is {shown}"
    return Finding(check="dns", verdict=Verdict.OK, text=text), addresses


def _unknown(text: str) -> Finding:
    return Finding(
        check="dns",
        verdict=Verdict.FAULT,
        text=text,
        advice="check the relay's URL, and the name servers of this host",
    )


async def families(endpoint: Endpoint, addresses: Addresses) -> list[Finding]:
    """Connect to the relay by IPv4 and by IPv6."""
    answers: dict[str, bool] = {}

    async def attempt(kind: str, wanted: tuple[str, ...]) -> None:
        answers[kind] = await _answers(wanted, endpoint.port)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attempt, "ipv4", addresses.ipv4[:_MAX_ADDRESSES])
        nursery.start_soon(attempt, "ipv6", addresses.ipv6[:_MAX_ADDRESSES])
    works = any(answers.values())
    return [
        _family(endpoint.host, "ipv4", addresses.ipv4, answers["ipv4"], works=works),
        _family(endpoint.host, "ipv6", addresses.ipv6, answers["ipv6"], works=works),
    ]


async def _answers(addresses: tuple[str, ...], port: int) -> bool:
    """Tell whether one of the addresses takes a TCP connection."""
    found = False

    async def attempt(address: str) -> None:
        nonlocal found
        with trio.move_on_after(_CONNECT_S):
            try:
                stream = await trio.open_tcp_stream(address, port)
            except OSError:
                return
            found = True
            await trio.aclose_forcefully(stream)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for address in addresses:
            nursery.start_soon(attempt, address)
    return found


def _family(
    host: str, kind: str, addresses: tuple[str, ...], answers: bool, *, works: bool
) -> Finding:
    name = {"ipv4": "IPv4", "ipv6": "IPv6"}[kind]
    if answers:
        text = f"{host} answers by {name}"
        return Finding(check=kind, verdict=Verdict.OK, text=text)
    if not addresses:
        text = f"{host} has no {name} address"
        return Finding(check=kind, verdict=Verdict.OK, text=text)
    if works:
        return Finding(
            check=kind,
            verdict=Verdict.WARNING,
            text=f"{host} has an {name} address, and nothing answers there; each "
            "connection loses a quarter of a second",
            advice=f"see to this host's {name} route, or tell the relay's operator",
        )
    return Finding(
        check=kind,
        verdict=Verdict.FAULT,
        text=f"{host} has an {name} address, and nothing answers there",
        advice="check that the relay runs, this host's route, and the firewall between",
    )
