"""The golden bytes of the arithmetic as checks for the C driver."""

from dataclasses import replace

import numpy as np

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.profiles import Profile
from tests.support.golden import golden, to_expert, to_floats, to_matrix, to_rows
from tests.support.kernel_checks import (
    Check,
    Layout,
    activation_check,
    coding_check,
    expert_check,
    product_check,
    rounding_check,
)

__all__ = ["vector_checks"]


def vector_checks(layout: Layout) -> list[Check]:
    """Return a check of each vector; what must come of it is the stored bytes."""
    return [
        *codings(layout),
        *activations(layout),
        *products(layout),
        *refusals(layout),
        *experts(layout),
    ]


def to_golden(check: Check, text: str) -> Check:
    """Replace what numpy gives by what the file says."""
    return replace(check, expected=bytes.fromhex(text), floats=False)


def codings(layout: Layout):
    for case in golden("coding.json"):
        x = to_floats(case["x"])
        for name, q in (("R8", 127), ("R16", 32767)):
            yield to_golden(coding_check(x, q, layout), case[name])
            yield to_golden(rounding_check(x, q, layout), case[f"{name} decoded"])


def activations(layout: Layout):
    vectors = golden("activations.json")
    g, u = to_floats(vectors["g"]), to_floats(vectors["u"])
    for kind in ActivationKind:
        check = activation_check(Activation(kind=kind), g, u, layout)
        yield to_golden(check, vectors[kind.name])
    elementary = golden("elementary.json")
    z = to_floats(elementary["z"])
    silu = Activation(kind=ActivationKind.SWIGLU)
    yield to_golden(
        activation_check(silu, z, np.ones_like(z), layout), elementary["silu"]
    )


def product_of(case: dict, layout: Layout) -> Check:
    matrix = to_matrix(case["raw"], case["format"], case["n_rows"], case["n_cols"])
    return product_check(matrix, to_rows(case), None, layout)


def products(layout: Layout):
    for case in golden("products.json"):
        yield to_golden(product_of(case, layout), case["result"])


def refusals(layout: Layout):
    """A row of numbers that are none, in numpy's places; or a code refused."""
    for case in golden("refused.json"):
        check = product_of(case, layout)
        assert check.outcome == (2 if case["error"] == "CodeRefused" else 0)
        yield check


def experts(layout: Layout):
    for case in golden("experts.json"):
        x = to_floats(case["x"], case["n_embd"])
        rows = ExpertInput(coded=quantize_rows(x), floats=x)
        for profile in Profile:
            check = expert_check(to_expert(case), rows, None, int(profile), layout)
            yield to_golden(check, case[profile.name])
