"""The kernel in WebAssembly: no compiler needed, the same two modules as in a browser.

Weights are copied into the memory of a module's instance and kept there as long as a
budget allows; what does not fit is copied again for each call, strip by strip. Each
call borrows an instance for itself and gives it back, one that holds its weights if
such a one is free: so threads compute side by side, each in a memory of its own that
no other sees, and a thread that ends takes no copies with it. There are never more
instances than there were calls at the same time; each takes 32 MiB beside the budget.

What a call gets is checked before any of it goes in; the modules check it once more.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import (
    CodedRows,
    ExpertInput,
    Floats,
    quantize_rows,
)
from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.profiles import Profile, decode_result, result_row_bytes
from mobile_worker.arithmetic.wasm.instance import load_module
from mobile_worker.arithmetic.wasm.programs import (
    check_rows,
    expert_rows,
    multiply_rows,
    part_of,
    product_rows,
    run_expert,
)
from mobile_worker.arithmetic.wasm.resident import Budget
from mobile_worker.arithmetic.wasm.workspace import Program, Workspace

__all__ = ["DEFAULT_RESIDENT_BYTES", "WasmKernel"]

DEFAULT_RESIDENT_BYTES: Final = 256 << 20


class WasmKernel:
    """Exact products and experts in wasm; a `Kernel`."""

    def __init__(
        self, flavour: str, resident_bytes: int = DEFAULT_RESIDENT_BYTES
    ) -> None:
        """Load the module "plain" or "relaxed"; keep so many bytes of weights at most.

        Raises KernelUnavailable where the module cannot be had or run.
        """
        self._flavour = flavour
        self._compiled = load_module(flavour)
        self._budget = Budget(resident_bytes)
        self._free: list[Workspace] = []
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Its name in tables and settings."""
        return f"wasm/{self._flavour}"

    @property
    def decoded_bytes(self) -> int:
        """How much it may keep of copied weights, all instances together."""
        return self._budget.total

    def code_rows(self, x: Floats) -> CodedRows:
        """Code activations `x` f32 [n, n_cols], q = 127; NonFinite, ShapeMismatch."""
        return quantize_rows(x)

    def matmul(self, matrix: Matrix, rows: ExpertInput) -> Floats:
        """Return rows x matrix^T, f32 [n, matrix.n_rows]; ShapeMismatch, CodeRefused.

        Raises FormatUnsupported as well.
        """
        return self.matmul_stacked((matrix,), rows)

    def matmul_stacked(self, matrices: Sequence[Matrix], rows: ExpertInput) -> Floats:
        """Return the products with several matrices side by side; as `matmul`."""
        check_rows(matrices, rows)
        width = sum(matrix.n_rows for matrix in matrices)
        out = np.empty((rows.n_rows, width), np.float32)
        with self._borrow(matrices[0]) as workspace:
            for part in _portions(rows.n_rows, product_rows(matrices)):
                own = part_of(rows, part)
                out[part] = multiply_rows(Program(workspace), matrices, own)
        return out

    def expert(
        self, weights: ExpertWeights, rows: ExpertInput, profile: Profile
    ) -> bytes:
        """Run all rows through one expert; coded results. NonFinite, ShapeMismatch."""
        return self.experts((KernelCall(weights=weights),), rows, profile)[0]

    def experts(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[bytes]:
        """Run each call's rows through its expert; NonFinite, ShapeMismatch."""
        inputs = [m for call in calls for m in (call.weights.gate, call.weights.up)]
        check_rows(inputs, rows)
        results = []
        for call in calls:
            own = rows if call.rows is None else rows.take(call.rows)
            results.append(self._run_expert(call.weights, own, profile))
        return results

    def expert_values(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[Floats]:
        """Return the values of `experts` as they arrive elsewhere; NonFinite."""
        values = []
        for call, coded in zip(calls, self.experts(calls, rows, profile), strict=True):
            n_embd = call.weights.down.n_rows
            n = len(coded) // result_row_bytes(profile, n_embd)
            values.append(decode_result(coded, profile, n, n_embd))
        return values

    def feed_forward(self, weights: ExpertWeights, rows: ExpertInput) -> Floats:
        """Return an expert's uncoded results, f32 [n, n_embd]; NonFinite."""
        call = KernelCall(weights=weights)
        return self.expert_values((call,), rows, Profile.R32)[0]

    def _run_expert(
        self, weights: ExpertWeights, rows: ExpertInput, profile: Profile
    ) -> bytes:
        """Return the coded results of all rows."""
        parts = []
        with self._borrow(weights.gate) as workspace:
            for part in _portions(rows.n_rows, expert_rows(weights)):
                program = Program(workspace)
                parts.append(run_expert(program, weights, part_of(rows, part), profile))
        return b"".join(parts)

    @contextmanager
    def _borrow(self, matrix: Matrix) -> Iterator[Workspace]:
        """Lend a free instance, one that holds the matrix if there is such a one."""
        with self._lock:
            free = self._free
            holders = (i for i, each in enumerate(free) if each.resident.find(matrix))
            workspace = free.pop(next(holders, -1)) if free else None
        if workspace is None:
            workspace = Workspace(self._compiled, self._budget)
        try:
            yield workspace
        except KernelUnavailable:
            workspace.resident.close()  # it trapped: never again
            raise
        except BaseException:
            self._give_back(workspace)
            raise
        self._give_back(workspace)

    def _give_back(self, workspace: Workspace) -> None:
        with self._lock:
            self._free.append(workspace)


def _portions(n: int, n_at_once: int) -> Iterator[slice]:
    """Cut n rows into portions."""
    for first in range(0, n, n_at_once):
        yield slice(first, min(n, first + n_at_once))
