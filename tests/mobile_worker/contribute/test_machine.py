"""Limits against what a machine has."""

import pytest

from mobile_worker.contribute.errors import LimitRefused
from mobile_worker.contribute.machine import (
    Machine,
    check_limits,
    default_domain,
    this_machine,
)

GIB = 1 << 30
LAPTOP = Machine(memory_bytes=16 * GIB, free_memory_bytes=10 * GIB, n_cpus=4)


def test_this_machine_has_something() -> None:
    machine = this_machine()
    assert machine.n_cpus >= 1
    assert machine.memory_bytes is None or machine.memory_bytes > 0


@pytest.mark.parametrize(
    ("memory_bytes", "n_threads", "text"),
    [
        (10 * GIB, 1, "above 90 %"),
        (2**64 - 1, 1, "above 90 %"),
        (1, 1, "too little"),
        (-1, 1, "too little"),
        (GIB, 0, "0 threads"),
        (GIB, 17, "17 threads on 4 processors"),
    ],
)
def test_b15_limits_that_cannot_be_kept(
    memory_bytes: int, n_threads: int, text: str
) -> None:
    with pytest.raises(LimitRefused, match=text) as caught:
        check_limits(LAPTOP, memory_bytes=memory_bytes, n_threads=n_threads)
    assert caught.value.advice


def test_the_threads_that_are_advised_are_those_that_are_taken() -> None:
    with pytest.raises(LimitRefused) as caught:
        check_limits(LAPTOP, memory_bytes=GIB, n_threads=17)
    assert caught.value.advice == "give --threads from 1 to 16"
    check_limits(LAPTOP, memory_bytes=GIB, n_threads=16)


def test_limits_that_fit() -> None:
    check_limits(LAPTOP, memory_bytes=9 * GIB, n_threads=16)
    silent = Machine(memory_bytes=None, free_memory_bytes=None, n_cpus=1)
    check_limits(silent, memory_bytes=64 * GIB, n_threads=1)


def test_the_domain_does_not_give_the_machines_name_away() -> None:
    assert default_domain() == default_domain()
    assert default_domain().startswith("host-")
    assert len(default_domain()) == 13
