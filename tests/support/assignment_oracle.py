"""The best assignment there is, by integer programming: for small worlds only.

What is best is the coverage that is useful: R up to T of every expert, summed. A
placement is bound by the market's own rules: room, one copy of an expert a device, a
domain counts once, a phone or browser holds only of the tail, and never alone what no
disk stands behind.

Source: design/06, "Assignment" (oracle ratio); scipy's HiGHS.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from random import Random

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from p2pmoe.market.assignment import Assignment
from p2pmoe.market.coverage import FULL_PERMILLE
from p2pmoe.market.devices import Device
from p2pmoe.market.wanted import Wanted
from tests.support.market_worlds import SHARD_BYTES, make_devices, make_wanted

__all__ = ["best_coverage", "small_worlds", "useful_coverage"]


def useful_coverage(assignment: Assignment) -> float:
    """Return R up to T, summed over experts, in replicas."""
    return sum(
        min(state.coverage.permille / FULL_PERMILLE, state.wanted.target)
        for state in assignment.states.values()
    )


def small_worlds(n: int) -> Iterator[tuple[list[Wanted], list[Device]]]:
    """Yield n random worlds in which those who stay can hold every expert once.

    Where they cannot, there is no good placement: the market then keeps the hottest.
    """
    for seed in count():
        rng = Random(seed)
        wanted = make_wanted(rng, rng.randint(4, 14), has_disk=bool(seed % 2))
        devices = make_devices(rng, rng.randint(3, 12))
        steady = sum(each.room_bytes for each in devices if not each.is_mobile)
        if steady >= len(wanted) * SHARD_BYTES:
            yield wanted, devices
            n -= 1
        if not n:
            return


class _Program:
    """An integer program, gathered row by row: A x <= b, 0 <= x <= upper."""

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns
        self.upper = np.ones(n_columns)
        self._most: list[float] = []
        self._cells: list[tuple[int, int, float]] = []

    def add(self, cells: Mapping[int, float], most: float) -> None:
        """Demand that the weighed sum of some columns is at most this."""
        row = len(self._most)
        self._cells += [(row, column, weight) for column, weight in cells.items()]
        self._most.append(most)

    def most_of(self, columns: range, *, n_whole: int) -> float:
        """Return the greatest sum of these columns; the first `n_whole` are whole."""
        gain, whole = np.zeros(self.n_columns), np.zeros(self.n_columns)
        gain[columns.start : columns.stop] = -1.0
        whole[:n_whole] = 1
        rows, places, weights = zip(*self._cells, strict=True)
        shape = (len(self._most), self.n_columns)
        matrix = coo_array((weights, (rows, places)), shape=shape)
        found = milp(
            gain,
            integrality=whole,
            bounds=Bounds(0.0, self.upper),
            constraints=LinearConstraint(matrix, -np.inf, self._most),
        )
        assert found.x is not None, found.message
        return float(-found.fun)


def best_coverage(wanted: Sequence[Wanted], devices: Sequence[Device]) -> float:
    """Return the most useful coverage that any placement of these can have."""
    domains = sorted({device.domain for device in devices})
    n_held = len(devices) * len(wanted)  # columns: holds, domain covers, useful
    first_useful = n_held + len(domains) * len(wanted)
    program = _Program(first_useful + len(wanted))
    for d, device in enumerate(devices):
        sizes = {d * len(wanted) + e: each.n_bytes for e, each in enumerate(wanted)}
        program.add(sizes, device.room_bytes)
    for e, each in enumerate(wanted):
        holds = {d * len(wanted) + e: device for d, device in enumerate(devices)}
        covers = [n_held + at * len(wanted) + e for at in range(len(domains))]
        for domain, column in zip(domains, covers, strict=True):
            program.add({column: 1, **_presence(holds, domain)}, 0.0)
        program.add({first_useful + e: 1, **dict.fromkeys(covers, -1)}, 0.0)
        program.upper[first_useful + e] = each.target
        _bind_mobile(program, each, holds)
    return program.most_of(range(first_useful, program.n_columns), n_whole=n_held)


def _presence(holds: Mapping[int, Device], domain: str) -> dict[int, float]:
    return {
        column: -device.availability / FULL_PERMILLE
        for column, device in holds.items()
        if device.domain == domain
    }


def _bind_mobile(
    program: _Program, wanted: Wanted, holds: Mapping[int, Device]
) -> None:
    steady = {c: -1.0 for c, device in holds.items() if not device.is_mobile}
    for column, device in holds.items():
        if device.is_mobile and not wanted.in_tail:
            program.upper[column] = 0.0
        elif device.is_mobile and wanted.floor:
            program.add({column: 1.0, **steady}, 0.0)
