"""Faults, B24: a shard under way never holds up a heartbeat or a layer's row.

By hand-moved clock and played wires (tests/support/slow_paths), with the values of the
fault: 8 MiB over 5 Mbit/s at 50 ms a way, two of them in a row, 27 s in all.
"""

import pytest

from mobile_worker.messages import Blob, Cancel, MessageClass, Output
from tests.support.injector.conditions import Path
from tests.support.slow_paths import Pair, direct_pair, relayed_pair

SLOW = Path(delay_s=0.05, bytes_s=5e6 / 8)
QUICK = Path(delay_s=0.005, bytes_s=64 << 20)
SHARD_BYTES = 8 << 20
EVERY_S = 0.5


def blob() -> Blob:
    return Blob(
        request=1,
        digest=bytes(32),
        offset=0,
        total=SHARD_BYTES,
        error=0,
        body=bytes(SHARD_BYTES),
    )


def row(request: int) -> Output:
    return Output(
        request=request, error=0, compute_us=0, n_rows_total=1, results=bytes(8192)
    )


def delays(pair: Pair, *, both_ways: bool) -> dict[str, list[float]]:
    """Send two shards, and heartbeats and rows beside them; return their delays."""
    pair.a.send(pair.b.peer_id, Cancel(request=0), MessageClass.CONTROL)
    while not pair.b.arrived:
        pair.step()
    pair.b.arrived.clear()
    ways = ((pair.a, pair.b.peer_id), (pair.b, pair.a.peer_id))
    for source, peer in ways[: 1 + both_ways]:
        for _ in range(2):
            source.send(peer, blob(), MessageClass.BULK)
    began = pair.clock.now
    sent = {0: began}
    while pair.clock.now - began < 50.0 and n_shards(pair) < 2 * (1 + both_ways):
        if pair.clock.now - began >= len(sent) * EVERY_S:
            number = len(sent)
            sent[number] = pair.clock.now
            for source, peer in ways:
                source.send(peer, Cancel(request=number), MessageClass.CONTROL)
                source.send(peer, row(number), MessageClass.INTERACTIVE)
        pair.step()
    assert n_shards(pair) == 2 * (1 + both_ways)
    return sorted_by_kind(pair, sent)


def n_shards(pair: Pair) -> int:
    arrived = pair.a.arrived + pair.b.arrived
    return sum(isinstance(message, Blob) for _, message in arrived)


def sorted_by_kind(pair: Pair, sent: dict[int, float]) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {"heartbeat": [], "row": []}
    for at, message in pair.a.arrived + pair.b.arrived:
        if not isinstance(message, Blob):
            kind = "heartbeat" if isinstance(message, Cancel) else "row"
            took[kind].append(at - sent[message.request])
    assert len(took["heartbeat"]) >= 2 * (len(sent) - 3)
    return took


WAYS = {
    "direct": lambda: direct_pair(SLOW),
    "slow sender": lambda: relayed_pair(SLOW, QUICK),
    "slow receiver": lambda: relayed_pair(QUICK, SLOW),
    "both slow": lambda: relayed_pair(SLOW, SLOW),
}


@pytest.mark.parametrize("both_ways", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize("way", WAYS)
def test_b24_a_heartbeat_passes_two_shards(way: str, both_ways: bool) -> None:
    took = delays(WAYS[way](), both_ways=both_ways)
    assert max(took["heartbeat"]) <= 0.5  # the fault allows 2 s
    assert max(took["row"]) <= 0.5
