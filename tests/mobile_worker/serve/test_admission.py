"""Dispatches against the manifest, the tab and what is held (B14, B25)."""

import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.errors import MessageError
from mobile_worker.messages.serving import OutputError
from mobile_worker.serve import admission
from mobile_worker.serve.admission import MAX_DISPATCH_ROWS, check_dispatch
from tests.support.small_model import coded_zeros, small_model

MODEL = small_model()
_, HELD = MODEL.held((1, 0), (1, 1))
MACS = 3 * 64 * 32  # of one row of one expert
MAX_MACS = 1 << 40


def problem(**changes: object) -> tuple[OutputError, str] | None:
    found = check_dispatch(MODEL.dispatch(**changes), HELD, 1, MAX_MACS)
    return None if found is None else (found.error, found.reason)


def test_a_dispatch_that_fits() -> None:
    assert problem() is None
    calls = ((0, (0, 2)), (1, (1,)))
    assert problem(calls=calls, n_rows=3, with_floats=True) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"layer": 3}, "layer 3 of 3"),
        ({"layer": 65_535}, "layer 65535 of 3"),
        ({"layer": 0}, "layer 0 has no routed expert 0"),
        ({"calls": ((4, (0,)),)}, "expert 4 of 4"),
        ({"calls": ((65_535, (0,)),)}, "expert 65535 of 4"),
        ({"n_embd": 32, "n_rows": 2}, "rows of 32 values, the model has 64"),
        ({"profile": 2}, "profile 2, the tab has 1"),
        ({"profile": 0}, "profile 0, the tab has 1"),
        (
            {"n_rows": MAX_DISPATCH_ROWS + 1},
            f"{MAX_DISPATCH_ROWS + 1} rows, at most {MAX_DISPATCH_ROWS} are taken",
        ),
    ],
)
def test_b25_what_does_not_fit_the_model_is_a_bad_request(
    changes: dict[str, object], reason: str
) -> None:
    if changes.get("n_embd") == 32:
        coded = coded_zeros(1)
        changes = changes | {"coded": coded}
    assert problem(**changes) == (OutputError.BAD_REQUEST, reason)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_rows": 0},
        {"calls": ((0, (1,)),)},
        {"calls": ((0, ()),)},
        {"calls": ((0, (0,)), (0, (0,)))},
        {"calls": ((-1, (0,)),)},
        {"coded": None},
    ],
)
def test_b14_parts_that_contradict_each_other_are_no_message(
    changes: dict[str, object],
) -> None:
    with pytest.raises(MessageError):
        MODEL.dispatch(**changes)


def test_an_expert_that_is_not_here_is_not_held() -> None:
    error, reason = problem(calls=((0, (0,)), (2, (0,)))) or (None, "")
    assert error is OutputError.NOT_HELD
    assert "1.2" in reason
    assert (problem(layer=2) or (None,))[0] is OutputError.NOT_HELD


def test_rows_must_come_in_the_form_that_the_expert_reads() -> None:
    dispatch = MODEL.dispatch(with_floats=True, coded=None)
    found = check_dispatch(dispatch, HELD, 1, MAX_MACS)
    assert found is not None
    assert found.reason == "1.0 needs coded rows"
    float_model = small_model("f32", Format.F32)
    _, held = float_model.held()
    found = check_dispatch(float_model.dispatch(), held, 1, MAX_MACS)
    assert found is not None
    assert found.reason == "1.0 needs f32 rows"
    assert (
        check_dispatch(float_model.dispatch(with_floats=True), held, 1, MAX_MACS)
        is None
    )


def test_rows_times_experts_must_fit_into_one_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "MAX_RESULT_BYTES", 4 * 136)
    two_experts = ((0, (0, 1)), (1, (0, 1)))
    assert problem(calls=two_experts, n_rows=2) is None
    found = problem(calls=((0, (0, 1, 2)), (1, (0, 1))), n_rows=3)
    reason = "an answer of 680 bytes, at most 544 are given"
    assert found == (OutputError.BAD_REQUEST, reason)


def test_a_dispatch_that_would_take_for_ever_is_refused() -> None:
    dispatch = MODEL.dispatch(calls=((0, (0, 1)), (1, (1,))), n_rows=2)
    assert check_dispatch(dispatch, HELD, 1, 3 * MACS) is None
    found = check_dispatch(dispatch, HELD, 1, 3 * MACS - 1)
    assert found is not None
    assert found.error is OutputError.BAD_REQUEST
    assert found.reason.startswith("18432 multiply-adds")
