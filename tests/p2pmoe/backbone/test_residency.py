"""Looked through until asked, filled then, following use from then on."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from p2pmoe.backbone.residency import Residency, keep_resident
from p2pmoe.weights.errors import ModelFileError
from tests.support.trio_test import trio_test


class Side:
    """A local side that notes what it is told to do."""

    def __init__(self, *, is_small: bool = False, knows_use: bool = True) -> None:
        self.is_small = is_small
        self.knows_use = knows_use
        self.done: list[str] = []
        self.looking = threading.Event()

    def look_through(self, go_on: Callable[[], bool]) -> bool:
        self.done.append("look")
        self.looking.set()
        while go_on():
            threading.Event().wait(0.001)
        self.done.append("looked")
        return False

    def fill_behind(self, go_on: Callable[[], bool]) -> None:
        assert go_on()
        self.done.append("fill")

    def rebalance(self, keep: object) -> bool:
        self.done.append(f"rebalance {keep}")
        return False

    def save(self) -> None:
        self.done.append("save")


def residency(
    asked: trio.Event,
    answered: trio.Event | None = None,
    *,
    in_network: bool = False,
) -> Residency:
    return Residency(
        in_network=in_network,
        asked=asked,
        answered=asked if answered is None else answered,
        only_here=lambda: "K",
        interval_s=0.005,
    )


async def until(side: Side, *steps: str) -> None:
    with trio.fail_after(5):
        while side.done[: len(steps)] != list(steps):  # noqa: ASYNC110 - a thread's
            await trio.sleep(0.002)


@trio_test
async def test_alone_it_looks_until_asked_and_fills_once_it_has_answered() -> None:
    side, asked, answered = Side(), trio.Event(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_resident, side, residency(asked, answered))
        await until(side, "look")
        asked.set()
        await until(side, "look", "looked")
        await trio.sleep(0.02)
        assert len(side.done) == 2
        answered.set()
        await until(side, "look", "looked", "fill", "rebalance K", "save")
        nursery.cancel_scope.cancel()


@trio_test
async def test_in_a_network_and_when_small_it_fills_at_once() -> None:
    for in_network, is_small in ((True, False), (False, True)):
        side = Side(is_small=is_small)
        async with trio.open_nursery() as nursery:
            settings = residency(trio.Event(), in_network=in_network)
            nursery.start_soon(keep_resident, side, settings)
            await until(side, "fill", "rebalance K")
            nursery.cancel_scope.cancel()


@trio_test
async def test_a_long_first_request_does_not_keep_it_waiting_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("p2pmoe.backbone.residency.PATIENCE_S", 0.01)
    side, asked = Side(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_resident, side, residency(asked, trio.Event()))
        asked.set()
        await until(side, "look", "looked", "fill")
        nursery.cancel_scope.cancel()


@trio_test
async def test_leaving_ends_the_look() -> None:
    side = Side()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_resident, side, residency(trio.Event()))
        await until(side, "look")
        nursery.cancel_scope.cancel()
    await until(side, "look", "looked")


@trio_test
async def test_it_waits_until_use_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("p2pmoe.backbone.residency.LOOK_INTERVAL_S", 0.001)
    side = Side(is_small=True, knows_use=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_resident, side, residency(trio.Event()))
        await trio.sleep(0.02)
        assert side.done == []
        side.knows_use = True
        await until(side, "fill")
        nursery.cancel_scope.cancel()


@trio_test
async def test_damage_found_before_anybody_asked_ends_it() -> None:
    class Damaged(Side):
        def look_through(self, go_on: Callable[[], bool]) -> bool:
            raise ModelFileError(Path("m.gguf"), "is damaged")

    with pytest.raises(ModelFileError, match="damaged"):
        await keep_resident(Damaged(), residency(trio.Event()))
