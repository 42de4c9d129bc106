"""Real processes of a network on loopback: relay, workers, backbone; for benchmarks.

What `p2pmoe demo` starts, but with workers that may reach the relay another way than
the backbone does: through an invite that names another port.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from p2pmoe.local_network.processes import Child, Stage
from p2pmoe.network.invite import Invite, read_invite, write_invite

__all__ = ["ask", "start_relay", "start_worker", "through_port"]

READY_WITHIN_S = 60.0
_ANSWER_WITHIN_S = 300.0


async def start_relay(stage: Stage) -> Path:
    """Start relay, market and ledger in one process; return the invite's file."""
    child = await stage.start(
        "relay",
        [
            *("relay", "--self-signed", "--listen", "127.0.0.1:0"),
            *("--data", str(stage.folder / "relay"), "--opening-credit", "1000"),
        ],
    )
    return Path((await child.ready(READY_WITHIN_S))["invite"])


def through_port(invite: Path, port: int) -> Path:
    """Write the invite anew, to the same relay by way of another port on loopback."""
    member: Invite = read_invite(invite)
    address = urlsplit(member.relay.url)._replace(netloc=f"127.0.0.1:{port}")
    relay = dataclasses.replace(member.relay, url=urlunsplit(address))
    other = invite.with_name(f"invite-{port}.json")
    write_invite(other, dataclasses.replace(member, relays=(relay,)))
    return other


async def start_worker(
    stage: Stage,
    name: str,
    invite: Path,
    memory: str,
    *,
    listen: int | None = None,
    advertise: str = "",
) -> Child:
    """Start a worker; one that listens is a hub on direct links, at `advertise`."""
    direct = []
    if listen is not None:
        direct = ["--hub", "--listen", f"127.0.0.1:{listen}"]
    if advertise:
        direct += ["--advertise", advertise]
    return await stage.start(
        name,
        [
            *("contribute", "--invite", str(invite), "--yes", "--memory", memory),
            *("--preset", "max"),  # the backbone beside it is other work
            *("--data", str(stage.folder / name), "--domain", name, *direct),
        ],
    )


async def ask(url: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole answer to a completion request, with its `timings`."""
    async with httpx.AsyncClient(trust_env=False, timeout=_ANSWER_WITHIN_S) as client:
        answer = await client.post(f"{url}/v1/completions", json=dict(body))
        answer.raise_for_status()
        return dict(answer.json())
