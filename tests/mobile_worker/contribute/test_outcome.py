"""One error out of a group."""

import pytest

from ledger.errors import SpoolFull
from mobile_worker.contribute.outcome import only_error
from mobile_worker.shards.errors import StoreUnusable


def test_the_first_error_for_people_replaces_its_group() -> None:
    inner = ExceptionGroup("a", [StoreUnusable("read-only"), SpoolFull("full")])
    with pytest.raises(StoreUnusable, match="read-only"), only_error():
        raise ExceptionGroup("b", [inner])


def test_a_fault_of_the_program_keeps_the_group() -> None:
    with pytest.raises(ExceptionGroup) as caught, only_error():
        raise ExceptionGroup("b", [StoreUnusable("x"), KeyError("y")])
    assert len(caught.value.exceptions) == 2
    with pytest.raises(KeyError), only_error():
        raise KeyError("plain")
    with only_error():
        pass
