"""The golden bytes of the arithmetic: what the oracle gives, and every kernel here."""

import json

import numpy as np
import pytest

from mobile_worker.arithmetic import errors
from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import CodedRows, ExpertInput
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.profiles import Profile
from tests.support.golden import golden, to_floats, to_matrix
from tests.support.kernels import all_kernels, kernel_name
from tests.vectors.make_arithmetic import FILES, FOLDER, FORMATS

KERNELS = pytest.mark.parametrize("kernel", all_kernels(), ids=kernel_name)
MAX_BYTES = 1_500_000


def title(case: dict) -> str:
    """Name a case in a test's id."""
    if "formats" in case:
        return "-".join((*case["formats"], case["activation"]))
    shape = f"{case['n_rows']}x{case['n_cols']}x{case['n']}"
    return "-".join((case["format"], case["kind"], shape))


def rows_of(case: dict) -> ExpertInput:
    """Return the rows of a product, coded or as floats."""
    n, n_cols = case["n"], case["n_cols"]
    if "x" in case:
        return ExpertInput(floats=to_floats(case["x"], n_cols))
    codes = np.frombuffer(bytes.fromhex(case["codes"]), np.int8).reshape(n, n_cols)
    scales = to_floats(case["scales"], n_cols // 32)
    return ExpertInput(coded=CodedRows(codes=codes, scales=scales))


@pytest.mark.parametrize("name", FILES)
def test_golden_bytes_are_what_the_oracle_gives(name: str) -> None:
    stored = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps(FILES[name]()))


def test_the_files_cover_every_format_and_stay_modest() -> None:
    products, experts = golden("products.json"), golden("experts.json")
    assert {case["format"] for case in products} == set(FORMATS)
    assert {name for case in experts for name in case["formats"]} == set(FORMATS)
    assert {1, 3, 7, 17, 33} == {case["n_rows"] for case in products}
    assert {1, 2, 5} == {case["n"] for case in products}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MAX_BYTES


@KERNELS
@pytest.mark.parametrize("case", golden("coding.json"), ids=lambda c: c["name"])
def test_coding(kernel: Kernel, case: dict) -> None:
    coded = kernel.code_rows(to_floats(case["x"])[None])
    together = coded.codes.tobytes() + coded.scales.astype("<f4").tobytes()
    assert together.hex() == case["R8"]


@KERNELS
@pytest.mark.parametrize("case", golden("products.json"), ids=title)
def test_products(kernel: Kernel, case: dict) -> None:
    matrix = to_matrix(case["raw"], case["format"], case["n_rows"], case["n_cols"])
    result = kernel.matmul(matrix, rows_of(case))
    assert result.astype("<f4").tobytes().hex() == case["result"]


@KERNELS
@pytest.mark.parametrize("case", golden("experts.json"), ids=title)
def test_experts(kernel: Kernel, case: dict) -> None:
    weights, x = expert_of(case), to_floats(case["x"], case["n_embd"])
    rows = ExpertInput(coded=kernel.code_rows(x), floats=x)
    for profile in Profile:
        assert kernel.expert(weights, rows, profile).hex() == case[profile.name]


def expert_of(case: dict) -> ExpertWeights:
    """Return the weights of a case of experts.json."""
    n_ff, n_embd = case["n_ff"], case["n_embd"]
    shapes = {"gate": (n_ff, n_embd), "up": (n_ff, n_embd), "down": (n_embd, n_ff)}
    parts = {
        part: to_matrix(case[part], name, *shapes[part])
        for part, name in zip(shapes, case["formats"], strict=True)
    }
    biases = {
        f"{part}_bias": to_floats(case[f"{part}_bias"])
        for part in shapes
        if f"{part}_bias" in case
    }
    activation = Activation(
        kind=ActivationKind[case["activation"]],
        alpha=case["alpha"],
        limit=case["limit"],
    )
    return ExpertWeights(**parts, **biases, activation=activation)


@KERNELS
@pytest.mark.parametrize(
    "case", golden("refused.json"), ids=lambda c: f"{c['format']}-{c['error']}"
)
def test_what_has_no_result(kernel: Kernel, case: dict) -> None:
    matrix = to_matrix(case["raw"], case["format"], case["n_rows"], case["n_cols"])
    if case["error"] == "NonFinite":
        finite = np.isfinite(kernel.matmul(matrix, rows_of(case)))
        assert not finite[:, case["bad_row"]].any()
        assert np.delete(finite, case["bad_row"], axis=1).all()
        return
    with pytest.raises(getattr(errors, case["error"])):
        kernel.matmul(matrix, rows_of(case))
