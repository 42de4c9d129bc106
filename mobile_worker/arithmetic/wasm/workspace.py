"""An instance with its memory laid out, and the programs that run in it.

From __heap_base on lie the steps of the running program, a strip for matrices that are
not resident, the values of the running call, and then the ring of resident weights:

    steps | strip | values | resident weights, growing

A program is put together for one call: values are placed one behind the other, steps
are noted and done in order, all at once where the weights are resident already.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import CodedRows, Floats
from mobile_worker.arithmetic.errors import KernelUnavailable, ShapeMismatch
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.wasm import steps
from mobile_worker.arithmetic.wasm.instance import (
    CompiledModule,
    WasmInstance,
)
from mobile_worker.arithmetic.wasm.resident import Budget, ResidentWeights

__all__ = ["STRIP_BYTES", "VALUES_BYTES", "Program", "Workspace"]

_MAX_STEPS: Final = 32
STRIP_BYTES: Final = 4 << 20
VALUES_BYTES: Final = 28 << 20

_ALIGNMENT: Final = 64


class Workspace:
    """One instance and where things lie in it; used by one thread at a time."""

    def __init__(self, compiled: CompiledModule, budget: Budget) -> None:
        """Make an instance; KernelUnavailable if there is no memory for it."""
        self.instance = WasmInstance(compiled)
        self.steps = _aligned(self.instance.heap_base)
        self.strip = _aligned(self.steps + _MAX_STEPS * steps.STEP_BYTES)
        self.values = self.strip + STRIP_BYTES
        self.end = self.values + VALUES_BYTES
        if not self.instance.reserve(self.end):
            raise KernelUnavailable("no memory for a wasm instance")
        self.resident = ResidentWeights(self.instance, self.end, budget)


class Program:
    """The steps of one call and the places of its values."""

    def __init__(self, workspace: Workspace) -> None:
        """Start with no steps and no values."""
        self._workspace = workspace
        self._free = workspace.values
        self._steps: list[bytes] = []

    def place(self, n_bytes: int) -> int:
        """Return the address of so many free bytes; ShapeMismatch if there are none."""
        address = self._free
        self._free = _aligned(address + n_bytes)
        if self._free > self._workspace.end:
            raise ShapeMismatch("rows too wide for the wasm kernel")
        return address

    def put(self, values: Floats) -> int:
        """Copy floats into the memory and return their address."""
        address = self.place(values.nbytes)
        self.view(address, values.nbytes)[:] = (
            np.ascontiguousarray(values, "<f4").reshape(-1).view(np.uint8)
        )
        return address

    def put_coded(self, coded: CodedRows) -> int:
        """Copy coded rows, make them ready for products, return their address."""
        n, n_cols = coded.codes.shape
        width = n_cols + n_cols // 8
        address = self.place(n * width)
        rows = self.view(address, n * width).reshape(n, width)
        rows[:, :n_cols] = coded.codes.view(np.uint8)
        rows[:, n_cols:] = np.ascontiguousarray(coded.scales, "<f4").view(np.uint8)
        return self.make_ready(address, n, n_cols)

    def make_ready(self, coded: int, n: int, n_cols: int) -> int:
        """Make coded rows in the memory ready for products; return their address."""
        ready = self.place(n * (n_cols // 32) * steps.READY_BYTES)
        self.add(steps.prepare(coded, n, n_cols, ready))
        return ready

    def add(self, step: bytes) -> None:
        """Note a step."""
        if len(self._steps) == _MAX_STEPS:
            self.run()
        self._steps.append(step)

    def multiply(
        self, matrix: Matrix, rows: tuple[int, int], result: tuple[int, int]
    ) -> None:
        """Multiply rows (address, number) with a matrix into y (address, stride)."""
        resident = self._workspace.resident
        address = resident.find(matrix)
        if address is None:
            self.run()  # a new copy may overwrite what noted steps would read
            address = resident.add(matrix)
        if address is None:
            self._multiply_strips(matrix, rows, result)
            return
        size = (address, matrix.n_rows, matrix.n_cols)
        self.add(steps.multiply(matrix.format, size, rows, result))

    def _multiply_strips(
        self, matrix: Matrix, rows: tuple[int, int], result: tuple[int, int]
    ) -> None:
        """Do the same some rows of the matrix at a time, copied to the strip."""
        raw = np.frombuffer(matrix.raw, np.uint8)
        row_bytes = len(raw) // matrix.n_rows
        n_at_once = STRIP_BYTES // row_bytes
        if n_at_once == 0:
            raise ShapeMismatch(f"rows of {row_bytes} bytes in a matrix are too wide")
        y, stride = result
        strip = self._workspace.strip
        for first in range(0, matrix.n_rows, n_at_once):
            n = min(n_at_once, matrix.n_rows - first)
            part = raw[first * row_bytes : (first + n) * row_bytes]
            self.view(strip, len(part))[:] = part
            place = (y + 4 * first, stride)
            size = (strip, n, matrix.n_cols)
            self.add(steps.multiply(matrix.format, size, rows, place))
            self.run()

    def run(self) -> None:
        """Do the steps noted so far; raises what the first refusal among them says."""
        noted, self._steps = self._steps, []
        if not noted:
            return
        place = self._workspace.steps
        content = np.frombuffer(b"".join(noted), np.uint8)
        self.view(place, len(content))[:] = content
        status = self._workspace.instance.run(place, len(noted))
        if status:
            raise steps.refusal(status)

    def view(self, address: int, n_bytes: int) -> npt.NDArray[np.uint8]:
        """Return bytes of the memory; they are void once a program has run on."""
        return self._workspace.instance.bytes[address : address + n_bytes]


def _aligned(address: int) -> int:
    return -(-address // _ALIGNMENT) * _ALIGNMENT
