"""Workers that cheat: the product's worker against a real network, answers bent.

`hostile_worker` runs `contribute` in this process, over real sockets to a real relay,
and bends each OUTPUT on its way out. Everything else about it is honest: its key, its
self-test, its offers, its accounts.
"""

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import trio

from mobile_worker.contribute.service import Hooks, Started, contribute
from mobile_worker.contribute.settings import ContributeSettings
from mobile_worker.errors import WorkerError
from mobile_worker.links import Node, NodeSettings, open_node
from mobile_worker.messages import Output, OutputError
from p2pmoe.network.invite import read_invite

__all__ = ["BENDS", "Bend", "as_it_is", "hostile_worker"]

Bend = Callable[[Output], Output]


def nan_rows(output: Output) -> Output:
    """All bits set: every scale is NaN."""
    return replace(output, results=b"\xff" * len(output.results))


def one_row_more(output: Output) -> Output:
    """The first row once more, and counted."""
    n = output.n_rows_total
    first = output.results[: len(output.results) // n]
    return replace(output, n_rows_total=n + 1, results=output.results + first)


def one_row_less(output: Output) -> Output:
    """The last row left out, and not counted; the last byte of a single row."""
    n = output.n_rows_total
    if n == 1:
        return replace(output, results=output.results[:-1])
    rest = output.results[: len(output.results) // n * (n - 1)]
    return replace(output, n_rows_total=n - 1, results=rest)


def rows_turned(output: Output) -> Output:
    """Each row in the place of the one before it."""
    width = len(output.results) // output.n_rows_total
    results = output.results[width:] + output.results[:width]
    return replace(output, results=results)


def one_bit(output: Output) -> Output:
    """The lowest bit of the first code of each row flipped."""
    width = len(output.results) // output.n_rows_total
    results = bytearray(output.results)
    for at in range(0, len(results), width):
        results[at] ^= 1
    return replace(output, results=bytes(results))


def as_it_is(output: Output) -> Output:
    """Nothing bent: an honest worker."""
    return output


def zeros(output: Output) -> Output:
    """Nothing computed: codes and scales of zero."""
    return replace(output, results=bytes(len(output.results)))


def noise(output: Output) -> Output:
    """Right but for 1 % more in the last float of each row: a scale, or a value."""
    width = len(output.results) // output.n_rows_total
    results = bytearray(output.results)
    for end in range(width, len(results) + 1, width):
        (value,) = struct.unpack_from("<f", results, end - 4)
        struct.pack_into("<f", results, end - 4, 1.01 * value)
    return replace(output, results=bytes(results))


_FIRST: dict[int, bytes] = {}


def cached(output: Output) -> Output:
    """The first results of this length, for ever: those of other tokens."""
    first = _FIRST.setdefault(len(output.results), output.results)
    return replace(output, results=first)


BENDS: dict[str, Bend] = {
    bend.__name__: bend
    for bend in (
        nan_rows,
        one_row_more,
        one_row_less,
        rows_turned,
        one_bit,
        zeros,
        noise,
        cached,
    )
}


class _BentNode:
    """A node whose good answers are bent before they leave."""

    def __init__(self, node: Node, bend: Bend) -> None:
        self._node = node
        self._bend = bend

    def __getattr__(self, name: str) -> object:
        return getattr(self._node, name)

    def send(self, peer, message, **options) -> None:
        if isinstance(message, Output) and message.error == OutputError.OK:
            message = self._bend(replace(message, results=bytes(message.results)))
        self._node.send(peer, message, **options)


@asynccontextmanager
async def hostile_worker(
    folder: Path, invite: str, bend: Bend, **hooks: object
) -> AsyncIterator[str]:
    """Run a worker that bends its answers; gives its peer id in hex."""
    member = read_invite(Path(invite))
    settings = ContributeSettings(
        data=folder,
        endpoint=member.relay,
        token=member.token,
        network=member.network,
        memory_bytes=64 << 20,
        disk_bytes=1 << 30,
        domain=f"hostile-{bend.__name__}",
        drain_s=2.0,
    )

    @asynccontextmanager
    async def open_bent(node_settings: NodeSettings) -> AsyncIterator[_BentNode]:
        async with open_node(node_settings) as node:
            yield _BentNode(node, bend)

    joined: list[str] = []
    stop, started = trio.Event(), trio.Event()

    def note(report: Started) -> None:
        joined.append(report.peer_id.hex())
        started.set()

    async def work() -> None:
        try:
            with_bent = Hooks(open_node=open_bent, started=note, **hooks)
            await contribute(settings, stop, with_bent)
        except WorkerError as error:
            raise AssertionError(f"the worker ended by itself: {error}") from error

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await started.wait()
        yield joined[0]
        stop.set()
