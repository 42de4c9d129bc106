"""Noticing that this host slept (faults B28), on a clock that a test moves."""

import pytest
import trio

from relay.suspend import SuspendWatch, sleep_awake
from tests.support.trio_test import trio_test

START_US = 1_800_000_000_000_000


class Wall:
    """A wall clock beside a monotonic one; `ahead_s` is how far it was moved."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.ahead_s = 0.0

    def __call__(self) -> int:
        return START_US + int((self.now + self.ahead_s) * 1e6)


@pytest.mark.parametrize(
    ("jump_s", "slept"),
    [(0, False), (29, False), (-29, False), (40, True), (-40, True)],
)
def test_b28_a_jump_of_more_than_thirty_seconds(jump_s: float, slept: bool) -> None:
    wall = Wall()
    watch = SuspendWatch(wall, 0.0)
    wall.now = 1000.0
    assert not watch.slept(1000.0)
    wall.ahead_s = jump_s
    assert watch.slept(1000.0) is slept
    assert not watch.slept(1000.0)


class TrioWall(Wall):
    def __call__(self) -> int:
        return START_US + int((trio.current_time() + self.ahead_s) * 1e6)


@trio_test(autojump=True)
async def test_a_wait_without_a_suspend_lasts_its_time() -> None:
    for seconds in (0.0, 0.5, 2.0, 29.7):
        began = trio.current_time()
        assert await sleep_awake(seconds, TrioWall())
        assert trio.current_time() - began == pytest.approx(seconds)


@trio_test(autojump=True)
async def test_b28_a_wait_ends_within_five_seconds_of_waking() -> None:
    wall = TrioWall()
    async with trio.open_nursery() as nursery:

        async def suspend() -> None:
            await trio.sleep(3)
            wall.ahead_s = 7200

        nursery.start_soon(suspend)
        assert not await sleep_awake(30, wall)
        assert trio.current_time() - 3 <= 5


@trio_test(autojump=True)
async def test_a_wait_can_be_cancelled() -> None:
    with trio.move_on_after(1) as scope:
        await sleep_awake(30, TrioWall())
    assert scope.cancelled_caught
