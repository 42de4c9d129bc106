"""The golden bytes of the arithmetic: what the oracle gives, and every kernel here."""

import json

import numpy as np
import pytest

from mobile_worker.arithmetic import errors
from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.profiles import Profile
from tests.support.golden import golden, to_expert, to_floats, to_matrix, to_rows
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
    result = kernel.matmul(matrix, to_rows(case))
    assert result.astype("<f4").tobytes().hex() == case["result"]


@KERNELS
@pytest.mark.parametrize("case", golden("experts.json"), ids=title)
def test_experts(kernel: Kernel, case: dict) -> None:
    weights, x = to_expert(case), to_floats(case["x"], case["n_embd"])
    rows = ExpertInput(coded=kernel.code_rows(x), floats=x)
    for profile in Profile:
        assert kernel.expert(weights, rows, profile).hex() == case[profile.name]


@KERNELS
@pytest.mark.parametrize(
    "case", golden("refused.json"), ids=lambda c: f"{c['format']}-{c['error']}"
)
def test_what_has_no_result(kernel: Kernel, case: dict) -> None:
    matrix = to_matrix(case["raw"], case["format"], case["n_rows"], case["n_cols"])
    if case["error"] == "NonFinite":
        finite = np.isfinite(kernel.matmul(matrix, to_rows(case)))
        assert not finite[:, case["bad_row"]].any()
        assert np.delete(finite, case["bad_row"], axis=1).all()
        return
    with pytest.raises(getattr(errors, case["error"])):
        kernel.matmul(matrix, to_rows(case))
