import numpy as np
import pytest

from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.errors import (
    KernelUnavailable,
    NonFinite,
    ShapeMismatch,
)
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from mobile_worker.arithmetic.wasm import steps, workspace
from mobile_worker.arithmetic.wasm.instance import WasmInstance, load_module
from mobile_worker.arithmetic.wasm.resident import Budget
from mobile_worker.arithmetic.wasm.workspace import VALUES_BYTES, Program, Workspace

COMPILED = load_module("plain")


def product(place: Workspace, matrix: Matrix, x: np.ndarray) -> np.ndarray:
    program = Program(place)
    y = program.place(4 * len(x) * matrix.n_rows)
    ready = program.put_coded(quantize_rows(x))
    program.multiply(matrix, (ready, len(x)), (y, matrix.n_rows))
    program.run()
    view = program.view(y, 4 * len(x) * matrix.n_rows)
    return view.view(np.float32).reshape(len(x), -1).copy()


def test_parts_of_the_memory_do_not_overlap() -> None:
    place = Workspace(COMPILED, Budget(0))
    assert place.instance.heap_base <= place.steps
    assert place.steps + 32 * steps.STEP_BYTES <= place.strip < place.values < place.end
    assert place.end - place.values == VALUES_BYTES
    assert len(place.instance.bytes) >= place.end


def test_values_lie_one_behind_the_other_until_there_is_no_room() -> None:
    program = Program(Workspace(COMPILED, Budget(0)))
    first, second = program.place(1), program.place(100)
    assert second == first + 64
    assert program.place(0) == second + 128
    with pytest.raises(ShapeMismatch, match="too wide"):
        program.place(VALUES_BYTES)


def test_more_steps_than_there_is_room_for_run_in_parts() -> None:
    program = Program(Workspace(COMPILED, Budget(0)))
    x = program.put(np.array([1, np.inf], np.float32))
    for _ in range(100):
        program.add(steps.check(x, 1))
    program.run()
    program.add(steps.check(x, 2))
    with pytest.raises(NonFinite):
        program.run()
    program.run()  # what failed is not noted any more


@pytest.mark.parametrize("n_at_once", [1, 3, 7, 100])
def test_strips_give_the_bytes_of_the_whole(
    n_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = fixed_matrix("m", Format.Q4_0, 23, 96)
    x = fixed_rows("x", 3, 96)
    resident = product(Workspace(COMPILED, Budget(1 << 20)), matrix, x)
    monkeypatch.setattr(workspace, "STRIP_BYTES", 54 * n_at_once + 53)
    streaming = Workspace(COMPILED, Budget(0))
    assert np.array_equal(product(streaming, matrix, x), resident)
    assert streaming.resident.find(matrix) is None
    rows = ExpertInput(coded=quantize_rows(x))
    assert np.array_equal(resident, NumpyKernel().matmul(matrix, rows))


def test_a_matrix_whose_rows_are_wider_than_a_strip_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workspace, "STRIP_BYTES", 53)
    matrix = fixed_matrix("m", Format.Q4_0, 2, 96)
    with pytest.raises(ShapeMismatch, match="54 bytes"):
        product(Workspace(COMPILED, Budget(0)), matrix, fixed_rows("x", 1, 96))


def test_a_new_copy_never_overwrites_what_noted_steps_still_read() -> None:
    matrices = [fixed_matrix(f"m{i}", Format.Q8_0, 64, 64) for i in range(5)]
    x = fixed_rows("x", 2, 64)
    coded = quantize_rows(x)
    place = Workspace(COMPILED, Budget(2 * matrices[0].raw.nbytes + 64))
    program = Program(place)
    ready = program.put_coded(coded)
    results = [program.place(4 * 2 * 64) for _ in matrices]
    for matrix, y in zip(matrices, results, strict=True):
        program.multiply(matrix, (ready, 2), (y, 64))
    program.run()
    for matrix, y in zip(matrices, results, strict=True):
        own = program.view(y, 4 * 2 * 64).view(np.float32).reshape(2, 64)
        right = NumpyKernel().matmul(matrix, ExpertInput(coded=coded))
        assert np.array_equal(own, right)


def test_without_memory_there_is_no_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WasmInstance, "reserve", lambda *_: False)
    with pytest.raises(KernelUnavailable, match="no memory"):
        Workspace(COMPILED, Budget(0))
