"""A thousand phones behind one carrier's address, and a relay that is started anew.

The real client and server on real sockets, in one process and by a clock that jumps:
seconds are those of the peers' own timers. Loopback counts as one address of strangers
here, so that the gate decides before the request is read, as it does for carriers.
"""

from functools import partial
from random import Random

import pytest
import trio

from p2pmoe.network.running import allow_many_files
from relay import (
    ClientSettings,
    Credentials,
    Role,
    SigningKey,
    accepting,
    connect,
    serve,
    server,
)
from relay.backoff import Backoff
from relay.endpoint import Endpoint
from relay.errors import RelayError
from relay.events import RelayRestarting
from relay.gate import GateLimits, Origin
from tests.support.joins import busiest_second
from tests.support.relays import plain_config, wall_us
from tests.support.trio_test import trio_test

N_PHONES = 1000
DOWN_S = 3.0
BACK_WITHIN_S = 60.0
MOST_A_SECOND = 100


def clock_us() -> int:
    return wall_us() + int(trio.current_time() * 1e6)


class Phones:
    """All of them, each as patient as `mobile_worker.links` is."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.joined_at: list[float] = []
        self.n_up = 0
        self.all_up, self.none_up = trio.Event(), trio.Event()

    async def run(self, number: int, starts_after_s: float) -> None:
        phone = SigningKey.from_seed(number.to_bytes(32, "big"))
        backoff = Backoff(random=Random(number).random)
        ticket = b""
        await trio.sleep(starts_after_s)
        while True:
            asked_s = 0.0
            began = trio.current_time()
            who = Credentials(
                peer_id=phone.peer_id, sign=phone.sign, role=Role.WORKER, ticket=ticket
            )
            try:
                async with connect(
                    self.endpoint,
                    who,
                    wall_us=clock_us,
                    settings=ClientSettings(allow_plaintext=True),
                ) as connection:
                    ticket = connection.welcome.ticket
                    self._count(1)
                    try:
                        async for event in connection.events():
                            if isinstance(event, RelayRestarting):
                                asked_s = event.reconnect_in_ms / 1000
                    finally:
                        self._count(-1)
            except RelayError:
                if trio.current_time() - began >= 5:
                    backoff.reset()
            await trio.sleep(backoff.next_delay_s(asked_s=asked_s))

    def _count(self, change: int) -> None:
        self.n_up += change
        if change > 0:
            self.joined_at.append(trio.current_time())
        if self.n_up == N_PHONES:
            self.all_up.set()
            self.none_up = trio.Event()
        elif not self.n_up:
            self.none_up.set()


async def no_drain(_server: object) -> None:
    await trio.lowlevel.checkpoint()


@pytest.mark.slow
@pytest.mark.parametrize("is_told", [True, False], ids=["drained", "killed"])
def test_all_come_back_within_a_minute(is_told: bool, monkeypatch) -> None:
    allow_many_files()
    monkeypatch.setattr(accepting, "origin_of", lambda *_, **__: Origin.PEER)
    if not is_told:
        monkeypatch.setattr(server._Server, "drain", no_drain)

    @trio_test(autojump=True)
    async def main() -> None:
        async with trio.open_nursery() as crowd:
            first = trio.CancelScope()
            config = plain_config(gate=GateLimits())
            relay = await crowd.start(partial(run_relay, first, config))
            phones = Phones(relay.endpoint("127.0.0.1"))
            for number in range(N_PHONES):  # four new ones a second
                crowd.start_soon(phones.run, number, number / 4)
            await phones.all_up.wait()
            assert relay.counters.refused.total() < 100
            first.cancel()
            await phones.none_up.wait()
            await trio.sleep(DOWN_S)
            phones.joined_at.clear()
            phones.all_up = trio.Event()
            began = trio.current_time()
            again = plain_config(gate=GateLimits(), port=relay.port)
            await crowd.start(partial(run_relay, trio.CancelScope(), again))
            await phones.all_up.wait()
            took_s = trio.current_time() - began
            most = busiest_second(phones.joined_at)
            crowd.cancel_scope.cancel()
        assert took_s <= BACK_WITHIN_S, took_s
        assert most <= MOST_A_SECOND, most
        assert len(phones.joined_at) == N_PHONES
        print(f"back in {took_s:.1f} s, at most {most} in a second")

    main()


async def run_relay(scope: trio.CancelScope, config, *, task_status) -> None:
    with scope:
        await serve(config, wall_us=clock_us, task_status=task_status)
