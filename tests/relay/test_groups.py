"""A caller's exception crosses a nursery as itself."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import trio

from relay.groups import only_exception
from tests.support.trio_test import trio_test


async def theirs() -> None:
    raise ValueError("theirs")


async def raising(beside: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async with only_exception(), trio.open_nursery() as nursery:
        nursery.start_soon(beside)
        raise KeyError("mine")


@trio_test
async def test_the_callers_exception_comes_out_as_itself():
    with pytest.raises(KeyError, match="mine"):
        await raising(trio.sleep_forever)


@trio_test
async def test_several_stay_a_group():
    with pytest.raises(BaseExceptionGroup) as caught:
        await raising(theirs)
    assert {type(each) for each in caught.value.exceptions} == {KeyError, ValueError}


@trio_test
async def test_without_an_exception_nothing_is_raised():
    async with only_exception(), trio.open_nursery() as nursery:
        nursery.start_soon(trio.lowlevel.checkpoint)
