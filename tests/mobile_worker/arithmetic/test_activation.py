import numpy as np
import pytest

from mobile_worker.arithmetic.activation import activate
from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from tests.support import arithmetic_oracle as oracle
from tests.support.golden import golden, to_floats


@pytest.mark.parametrize("kind", list(ActivationKind))
def test_golden_bytes(kind: ActivationKind) -> None:
    vectors = golden("activations.json")
    g, u = to_floats(vectors["g"]), to_floats(vectors["u"])
    y = activate(Activation(kind=kind), g, u)
    assert y.tobytes().hex() == vectors[kind.name]


def test_constants_are_the_activations_own() -> None:
    g = np.array([3.0, 0.5], np.float32)
    u = np.array([3.0, -3.0], np.float32)
    own = Activation(kind=ActivationKind.SWIGLU_OAI, alpha=1.0, limit=2.0)
    expected = [
        oracle.activate("SWIGLU_OAI", a, b, 1.0, 2.0)
        for a, b in zip(g.tolist(), u.tolist(), strict=True)
    ]
    assert activate(own, g, u).tolist() == expected


def test_inputs_are_left_alone_and_may_be_views() -> None:
    both = np.arange(12, dtype=np.float32).reshape(2, 6)
    before = both.copy()
    for kind in ActivationKind:
        y = activate(Activation(kind=kind), both[:, :3], both[:, 3:])
        assert y.shape == (2, 3)
    assert np.array_equal(both, before)
