import numpy as np
import pytest

from mobile_worker.arithmetic.native.native_kernel import NativeKernel
from mobile_worker.arithmetic.native.rows import NativeRows, row_sets
from p2pmoe.model import native_operations
from p2pmoe.model.native_operations import first_difference, operations_for
from p2pmoe.model.row_operations import NUMPY_OPERATIONS, NumpyOperations
from tests.support.kernels import all_kernels, kernel_name


@pytest.fixture(name="said")
def fixture_said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is logged, with nothing remembered of native operations."""
    said: list[str] = []
    monkeypatch.setattr(
        native_operations.log, "warning", lambda text, *given: said.append(text % given)
    )
    native_operations._native.cache_clear()
    yield said
    native_operations._native.cache_clear()


class OtherSet(NativeKernel):
    """A native kernel by its names alone."""

    def __init__(self, isa: str) -> None:
        self.isa, self.n_threads = isa, 1


@pytest.mark.parametrize("kernel", all_kernels(), ids=kernel_name)
def test_a_native_kernel_brings_its_own_set_and_all_others_numpys(kernel) -> None:
    own = operations_for(kernel)
    is_native = kernel.name.removeprefix("native/") in row_sets()
    assert own.name == (kernel.name if is_native else "numpy")
    assert operations_for(kernel) is own


def test_without_the_extension_numpy_serves(said: list[str]) -> None:
    assert operations_for(OtherSet("avx9")) is NUMPY_OPERATIONS
    assert "avx9" in said[0]


def test_an_extension_of_another_version_leaves_it_to_numpy(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    def stale(*_: object, **__: object) -> None:
        raise AttributeError("no 'sets'")

    monkeypatch.setattr(native_operations, "NativeRows", stale)
    assert operations_for(OtherSet("avx2")) is NUMPY_OPERATIONS
    assert said == ["no 'sets'; numpy computes attention and norms"]


@pytest.mark.parametrize("name", row_sets())
def test_what_runs_here_is_right(name: str) -> None:
    assert first_difference(NativeRows(name)) is None


class Flawed(NumpyOperations):
    """One operation is wrong in the last bit of one value, or not there."""

    def __init__(self, operation: str, *, missing: bool = False) -> None:
        self.name = "native/avx9"
        right = getattr(NUMPY_OPERATIONS, operation)

        def wrong(*given):
            if missing:
                raise TypeError("11 arguments where 12 are needed")
            if operation == "lane_product":
                return lambda x: nudged(right(*given)(x))
            if operation == "turn":
                right(*given)
                given[0][...] = nudged(given[0])
                return None
            if operation == "choose":
                experts, weights = right(*given)
                return experts, nudged(weights)
            return nudged(right(*given))

        setattr(self, operation, wrong)


def nudged(values: np.ndarray) -> np.ndarray:
    changed = values.copy()
    changed.reshape(-1)[-1] = np.nextafter(changed.reshape(-1)[-1], np.float32(9))
    return changed


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("operation", native_operations._TRIALS)
def test_each_operation_is_held_against_numpys(operation: str, missing: bool) -> None:
    assert first_difference(Flawed(operation, missing=missing)) == operation


def test_what_is_wrong_is_not_used(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setattr(
        native_operations, "NativeRows", lambda *_, **__: Flawed("attend")
    )
    assert operations_for(OtherSet("avx2")) is NUMPY_OPERATIONS
    assert said == [
        "attend of native/avx9 gives other bytes than the specification; "
        "numpy computes it"
    ]


def test_every_operation_of_the_seam_is_tried() -> None:
    own = {name for name in vars(NumpyOperations) if not name.startswith("_")}
    assert own - {"name"} == set(native_operations._TRIALS)
