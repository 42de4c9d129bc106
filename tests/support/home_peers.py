"""Relays and peers as programs, for hosts of their own; what happens, as JSON lines.

    python -m tests.support.home_peers relay NUMBER ADDRESS
    python -m tests.support.home_peers peer NUMBER ASKED URL...

A relay says {"url"} once it listens. A peer answers every message by the same one, or,
if it has peers to ask (ASKED: their numbers with commas, or "-"), sends each of them a
numbered message five times a second. It says {"up"}, {"homes"} once it is at home on
all of two, {"answer", "of"}, {"lost", "why"}, each with the monotonic time in seconds,
which all processes of one machine share.
"""

import contextlib
import functools
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import trio

from mobile_worker.errors import WorkerError
from mobile_worker.links import Arrived, Node, PeerLost, RelayChanged, open_node
from mobile_worker.links.linked_node import LinkedNode
from mobile_worker.messages import Cancel
from relay import serve
from relay.endpoint import parse_endpoint
from tests.support.hosts import Host
from tests.support.nodes import identity, settings_of, until
from tests.support.relays import key, tls_config, wall_us

__all__ = ["Program", "program"]

_ASK_S = 0.2
_FIRST_RELAY = 210


class Program:
    """One running program on a host; `lines` is what it has said so far."""

    def __init__(self, host: Host, log: Path, *words: str) -> None:
        self._log = log
        command = host.command(sys.executable, "-m", __name__, *words)
        with log.open("wb") as sink, log.with_suffix(".err").open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=errors
            )

    @property
    def lines(self) -> list[dict[str, object]]:
        """What it has said, whole lines only."""
        text = self._log.read_text()
        whole = text[: text.rfind("\n") + 1]
        return [json.loads(line) for line in whole.splitlines()]

    @property
    def errors(self) -> str:
        """What it logged."""
        return self._log.with_suffix(".err").read_text()

    def wait_for(self, name: str, *, within_s: float = 60.0) -> dict[str, object]:
        """Return the first line that has this member."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            for line in self.lines:
                if name in line:
                    return line
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"no {name!r} in {self.lines}: {self.errors}")

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait(timeout=20)


@contextlib.contextmanager
def program(host: Host, folder: Path, *words: str) -> Iterator[Program]:
    """Run a program while the block runs."""
    running = Program(host, folder / f"{words[0]}-{words[1]}.log", *words)
    try:
        yield running
    finally:
        running.end()


def _say(**members: object) -> None:
    line = json.dumps({**members, "at": time.monotonic()})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def _relay(number: int, address: str) -> None:
    config = tls_config(identity=key(_FIRST_RELAY + number), host=address)
    async with trio.open_nursery() as nursery:
        running = await nursery.start(functools.partial(serve, config, wall_us=wall_us))
        _say(url=str(running.endpoint(address)))


async def _peer(number: int, asked: tuple[int, ...], urls: list[str]) -> None:
    endpoints = tuple(parse_endpoint(url) for url in urls)
    async with open_node(settings_of(number, endpoints=endpoints)) as node:
        _say(up=number)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_say_homes, node)
            if asked:
                nursery.start_soon(_ask, node, asked)
            names = {identity(other).peer_id: other for other in range(1, 10)}
            async for event in node.arrivals():
                if isinstance(event, Arrived):
                    if asked:
                        request = event.message.request
                        _say(answer=request, of=names[event.peer])
                    else:
                        node.send(event.peer, event.message)
                elif isinstance(event, PeerLost):
                    _say(lost=names[event.peer], why=event.reason)
                elif isinstance(event, RelayChanged):
                    _say(relay=event.up)


async def _say_homes(node: LinkedNode) -> None:
    await until(
        lambda: sum(relay.up for relay in node._switchboard.relays) == 2, within_s=60
    )
    _say(homes=2)


async def _ask(node: Node, asked: tuple[int, ...]) -> None:
    request = 0
    while True:
        for number in asked:
            with contextlib.suppress(WorkerError):  # its queue is full
                node.send(identity(number).peer_id, Cancel(request=request))
        request += 1
        await trio.sleep(_ASK_S)


def _main(kind: str, number: str, *words: str) -> None:
    logging.basicConfig(level=logging.DEBUG)
    if kind == "relay":
        trio.run(_relay, int(number), words[0])
    else:
        asked = () if words[0] == "-" else tuple(map(int, words[0].split(",")))
        trio.run(_peer, int(number), asked, list(words[1:]))


if __name__ == "__main__":
    _main(*sys.argv[1:])
