"""A whole node whose host was suspended is back within five seconds (faults B28).

Timers stand during a suspend while the wall clock runs on: that is what the clock of
these tests does when it is told to.
"""

import random

import trio

from mobile_worker.links import Node, RelayChanged, open_node
from tests.support.nodes import RelayHost, next_event, settings_of
from tests.support.relays import running_relay, tls_config
from tests.support.trio_test import trio_test

BACK_WITHIN_S = 5.0


class SleepyClock:
    """Clocks of a host that sleeps: `slept_s` is how long it did so far."""

    slept_s = 0.0

    def monotonic(self) -> float:
        return trio.current_time()

    def wall_us(self) -> int:
        return 1_800_000_000_000_000 + int((self.monotonic() + self.slept_s) * 1e6)


async def back(node: Node) -> None:
    """Wait until the node has lost its relay and has one again."""
    was_down = False
    while True:
        change = await next_event(node, RelayChanged)
        if change.up and was_down:
            return
        was_down = was_down or not change.up


@trio_test(autojump=True)
async def test_b28_a_connection_of_before_is_made_anew() -> None:
    clock = SleepyClock()
    async with running_relay(tls_config(), wall_us=clock.wall_us) as relay:
        settings = settings_of(1, relay=relay.endpoint("127.0.0.1"))
        async with open_node(settings, clock=clock) as node:
            await trio.sleep(60)
            assert relay.counters.admitted == 1
            clock.slept_s += 40
            woke = trio.current_time()
            await back(node)
            assert trio.current_time() - woke <= BACK_WITHIN_S
            assert relay.counters.admitted == 2


@trio_test(autojump=True)
async def test_b28_a_long_wait_of_before_is_cut_short(monkeypatch) -> None:
    """The relay was away for minutes, so that each wait is of the longest kind."""
    monkeypatch.setattr(random, "random", lambda: 0.999)
    clock = SleepyClock()
    async with trio.open_nursery() as nursery:
        host = RelayHost(nursery)
        settings = settings_of(1, relay=await host.start())
        async with open_node(settings, clock=clock) as node:
            await host.stop()
            await trio.sleep(310)  # the next attempt is 20 s away
            await host.start()
            clock.slept_s += 7200
            woke = trio.current_time()
            await back(node)
            assert trio.current_time() - woke <= BACK_WITHIN_S
            nursery.cancel_scope.cancel()
