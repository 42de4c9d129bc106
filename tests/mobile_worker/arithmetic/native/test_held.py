"""Held weights and threads; equality with the reference is in model/test_products."""

import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.errors import ShapeMismatch
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.native import native_kernel
from mobile_worker.arithmetic.native.held import NativeProducts
from mobile_worker.arithmetic.native.native_kernel import NativeKernel, native_sets
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows

built = pytest.mark.skipif(not native_sets(), reason="the extension was not built here")
X = fixed_rows("x", 5, 64)


def expert(seed: int) -> ExpertWeights:
    return ExpertWeights(
        gate=fixed_matrix(f"g{seed}", Format.Q4_0, 32, 64),
        up=fixed_matrix(f"u{seed}", Format.Q4_0, 32, 64),
        down=fixed_matrix(f"d{seed}", Format.Q4_0, 64, 32),
        activation=Activation(kind=ActivationKind.SWIGLU),
    )


@built
def test_what_c_holds_is_made_once_and_goes_with_the_expert() -> None:
    own, weights = NativeProducts(NativeKernel()), expert(0)
    own.feed_forward(weights)(X)
    held = weights.held
    assert held is not None
    own.routed({0: weights}, np.zeros((5, 1), np.int64), X, Profile.R16)
    assert weights.held is held


@built
def test_threads_share_the_work_and_change_no_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native_kernel, "_WORTH_A_THREAD", 1)
    alone = NativeProducts(NativeKernel(n_threads=1))
    shared = NativeProducts(NativeKernel(n_threads=3))
    weights = {index: expert(index) for index in range(6)}
    chosen = np.array([[0, 1], [1, 2], [0, 5], [3, 4], [1, 5]])
    for own in (chosen, chosen[:1], chosen[:, :1]):
        x = X[: len(own)]
        one = alone.routed(weights, own, x, Profile.R16)
        many = shared.routed(weights, own, x, Profile.R16)
        assert one.tobytes() == many.tobytes()
    matrix = fixed_matrix("m", Format.Q8_0, 40, 64)
    bias = fixed_rows("b", 1, 40)[0]
    one, many = (each.linear([matrix], bias)(X) for each in (alone, shared))
    assert one.tobytes() == many.tobytes()
    one, many = (each.feed_forward(weights[0])(X) for each in (alone, shared))
    assert one.tobytes() == many.tobytes()


@built
def test_rows_of_another_width_or_type_are_refused() -> None:
    own = NativeProducts(NativeKernel())
    product = own.linear([fixed_matrix("m", Format.Q8_0, 8, 64)], None)
    wide = np.ones((2, 96), np.float32)
    for wrong in (wide, X.astype(np.float64), X[0], wide[:, :40]):
        with pytest.raises(ShapeMismatch):
            product(wrong)
    with pytest.raises(ShapeMismatch):
        own.feed_forward(expert(0))(wide)
    with pytest.raises(ShapeMismatch):
        own.routed({0: expert(0)}, np.zeros((2, 1), np.int64), wide, Profile.R16)
