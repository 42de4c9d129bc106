import contextlib
import ctypes
import ctypes.util
import importlib
import platform

import numpy as np
import pytest

from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.native import rows
from mobile_worker.arithmetic.native.rows import NativeRows, row_sets
from p2pmoe.model.attention import AttentionRule
from p2pmoe.model.choice import RouterSettings, ScoreFunction

SETS = sorted(row_sets().items(), key=lambda item: item[1])
built = pytest.mark.skipif(not SETS, reason="the extension was not built here")
UPWARD = 0x800  # FE_UPWARD on x86-64
FLUSH = 0x8040  # FTZ and DAZ of MXCSR


def floats(*shape):
    return np.ones(shape, np.float32)


# Arguments that each function takes, by the names of the arrays' places.
GOOD = {
    "rms_norm": lambda: [floats(2, 3, 32), floats(3, 32), 1e-6, floats(2, 3, 32)],
    "turn": lambda: [floats(2, 3, 16), floats(2, 8), floats(2, 8), True],
    "dot_scores": lambda: [floats(2, 1, 2, 16), floats(1, 16, 9), floats(2, 1, 2, 7)],
    "attend": lambda: [
        floats(2, 1, 2, 16),
        floats(1, 16, 9),
        floats(9, 1, 24),
        7,
        np.ones((2, 1, 9), np.bool_),
        0.25,
        5,
        30.0,
        floats(1, 2),
        floats(2, 1, 2, 24),
        *(0, 2, 0, 2),
    ],
    "attend_runs": lambda: [
        floats(3, 1, 2, 16),
        floats(3, 1, 16),
        floats(3, 1, 24),
        (
            (floats(1, 16, 9), floats(9, 1, 24), 7, 2, None),
            (floats(1, 16, 4), floats(5, 1, 24), 3, 1, np.ones((1, 1, 4), np.bool_)),
        ),
        0.25,
        5,
        30.0,
        floats(1, 2),
        floats(3, 1, 2, 24),
    ],
    "lane_product": lambda: [floats(5, 16), floats(2, 16), floats(2, 5)],
    "choose": lambda: [
        floats(2, 8),
        floats(8),
        2,
        True,
        1.0,
        *(4, 2),
        np.empty((2, 3), np.int64),
        floats(2, 3),
    ],
    "weighted_sum": lambda: [floats(2, 3, 8), floats(2, 3), floats(2, 8)],
}
PLACES = [
    (name, place)
    for name, arguments in GOOD.items()
    for place, value in enumerate(arguments())
    if isinstance(value, np.ndarray)
]


def call(name: str, arguments, number: int | None = None) -> None:
    module = importlib.import_module("mobile_worker.arithmetic.native._rows")
    getattr(module, name)(SETS[-1][1] if number is None else number, *arguments)


def is_result(name: str, place: int) -> bool:
    if name == "turn":
        return place == 0
    last = max(at for own, at in PLACES if own == name)
    return place == last or (name, place) == ("choose", last - 1)


@built
@pytest.mark.parametrize("name", GOOD)
def test_what_fits_is_computed(name: str) -> None:
    for _, number in SETS:
        call(name, GOOD[name](), number)


@built
@pytest.mark.parametrize(("name", "place"), PLACES)
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("change", [-1, 1, 40])
def test_a_wrong_length_is_refused(name, place, axis, change) -> None:
    arguments = GOOD[name]()
    shape = list(arguments[place].shape)
    if axis >= len(shape):
        return
    shape[axis] = max(0, shape[axis] + change)
    arguments[place] = np.ones(shape, arguments[place].dtype)
    longer_is_fine = {
        ("dot_scores", 1, 2),
        ("dot_scores", 2, 3),
        ("attend", 1, 2),
        ("attend", 2, 0),
        ("rms_norm", 1, 0),
        ("choose", 7, 1),
        ("turn", 0, 1),
        ("turn", 0, 2),
    }
    if (name, place, axis) in longer_is_fine:
        with contextlib.suppress(ValueError):
            call(name, arguments)
    else:
        with pytest.raises(ValueError, match="belong together"):
            call(name, arguments)


@built
@pytest.mark.parametrize(("name", "place"), PLACES)
@pytest.mark.parametrize("kind", ["f8", "i4", "u1", "i8", "?", ">f4", "c8"])
def test_another_type_is_refused(name: str, place: int, kind: str) -> None:
    arguments = GOOD[name]()
    if arguments[place].dtype == np.dtype(kind):
        return
    arguments[place] = np.zeros(arguments[place].shape, kind)
    with pytest.raises(TypeError, match="an array of type"):
        call(name, arguments)


def off_its_place(original: np.ndarray) -> np.ndarray:
    """Return the array at an address that its type must not have."""
    room = np.zeros(original.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 8 + 1
    part = room[start : start + original.nbytes]
    part[:] = original.ravel().view(np.uint8)
    return part.view(original.dtype).reshape(original.shape)


@built
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_what_is_no_plain_array_is_refused(name: str, place: int) -> None:
    original = GOOD[name]()[place]
    bad = [
        np.repeat(original, 2, axis=-1)[..., ::2],
        off_its_place(original),
        bytes(original),
        object(),
        [1.0],
    ]
    if original.dtype == np.bool_:
        del bad[1]  # a byte is aligned everywhere
    if is_result(name, place):
        frozen = original.copy()
        frozen.flags.writeable = False
        bad.append(frozen)
    for wrong in bad:
        arguments = GOOD[name]()
        arguments[place] = wrong
        with pytest.raises((ValueError, TypeError, BufferError)):
            call(name, arguments)


@built
@pytest.mark.parametrize("name", GOOD)
def test_a_wrong_number_of_arguments_or_set_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="arguments where"):
        call(name, GOOD[name]()[:-1])
    with pytest.raises(TypeError):
        call(name, [*GOOD[name](), 1])
    for number in (-1, 4, 99, 1 << 70, "avx2"):
        with pytest.raises((ValueError, TypeError, OverflowError)):
            call(name, GOOD[name](), number)


@built
@pytest.mark.parametrize("first", [8, -1, 1 << 63, 2**64 - 1, "x", 1.5])
def test_a_position_beyond_the_cache_is_refused(first) -> None:
    arguments = GOOD["attend"]()
    arguments[3], arguments[4] = first, None
    with pytest.raises((ValueError, TypeError, OverflowError)):
        call("attend", arguments)


@built
@pytest.mark.parametrize(
    "part", [(0, 3, 0, 1), (2, 1, 0, 1), (0, 2, 0, 3), (0, 2, 2, 1), (-1, 2, 0, 1)]
)
def test_a_part_beyond_the_rows_or_heads_is_refused(part) -> None:
    arguments = GOOD["attend"]()
    arguments[10:] = part
    with pytest.raises((ValueError, OverflowError)):
        call("attend", arguments)


@built
@pytest.mark.parametrize("cap", [-1.0, float("nan")])
def test_a_soft_cap_below_nothing_is_refused(cap: float) -> None:
    arguments = GOOD["attend"]()
    arguments[7] = cap
    with pytest.raises(ValueError, match="soft cap"):
        call("attend", arguments)


@built
@pytest.mark.parametrize("window", [-1, 1 << 64, "x", None])
def test_what_is_no_window_is_refused(window) -> None:
    arguments = GOOD["attend"]()
    arguments[6] = window
    with pytest.raises((TypeError, OverflowError)):
        call("attend", arguments)


@built
def test_a_window_of_any_length_and_none_see_the_same() -> None:
    results = []
    for window in (0, 9, 10, (1 << 64) - 1):
        arguments = GOOD["attend"]()
        arguments[6] = window
        call("attend", arguments)
        results.append(arguments[9].tobytes())
    assert len(set(results)) == 1


@built
@pytest.mark.parametrize("groups", [(0, 0), (3, 1), (4, 5), (4, 0), (16, 1)])
def test_groups_that_are_not_there_are_refused(groups: tuple[int, int]) -> None:
    arguments = GOOD["choose"]()
    arguments[5:7] = groups
    with pytest.raises(ValueError, match="groups"):
        call("choose", arguments)


@built
@pytest.mark.parametrize("function", [0, 4, 1 << 32])
def test_an_unknown_score_function_is_refused(function: int) -> None:
    arguments = GOOD["choose"]()
    arguments[2] = function
    with pytest.raises(ValueError, match="score function"):
        call("choose", arguments)


@built
def test_no_expert_and_more_than_there_are_are_refused() -> None:
    for top_k in (0, 9):
        arguments = GOOD["choose"]()
        arguments[7], arguments[8] = np.empty((2, top_k), np.int64), floats(2, top_k)
        with pytest.raises(ValueError, match="top-k"):
            call("choose", arguments)


@built
@pytest.mark.parametrize("name", GOOD)
def test_no_rows_at_all_are_computed(name: str) -> None:
    """Empty arrays: nothing is read or written, nothing crashes."""
    arguments = [
        np.empty((0, *value.shape[1:]), value.dtype)
        if isinstance(value, np.ndarray)
        else value
        for value in GOOD[name]()
    ]
    if name == "attend":
        arguments[3] = arguments[11] = arguments[13] = 0
    with contextlib.suppress(ValueError):
        call(name, arguments)


@built
@pytest.mark.parametrize(("own", "_"), SETS)
def test_values_that_are_no_numbers_come_out_as_such(own: str, _) -> None:
    queries, keys, kept = floats(1, 1, 1, 8), floats(1, 8, 300), floats(300, 1, 8)
    keys[0, 3, 7] = np.nan
    rule = AttentionRule(scale=0.5)
    assert np.isnan(NativeRows(own).attend(queries, keys, kept, 299, rule, None)).all()
    logits = np.array([[1.0, np.nan, 3.0]], np.float32)
    for function in ScoreFunction:
        rule = RouterSettings(score_function=function, top_k=2, norm=True, scale=1.0)
        experts, weights = NativeRows(own).choose(logits, None, rule)
        assert experts[0].tolist() == sorted(set(experts[0].tolist()))
        assert np.isnan(weights).all() == (function is ScoreFunction.SOFTMAX)


class FloatEnvironment:
    """The x86-64 float environment of this thread, through the C library."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(ctypes.util.find_library("m"))
        self.before = ctypes.create_string_buffer(32)
        self.library.fegetenv(self.before)

    def mxcsr(self) -> int:
        now = ctypes.create_string_buffer(32)
        self.library.fegetenv(now)
        return int.from_bytes(now.raw[28:32], "little")

    def set_mxcsr(self, value: int) -> None:
        raw = self.before.raw[:28] + value.to_bytes(4, "little")
        self.library.fesetenv(ctypes.create_string_buffer(raw, 32))

    def restore(self) -> None:
        self.library.fesetenv(self.before)


@built
@pytest.mark.skipif(
    (platform.machine(), platform.system()) != ("x86_64", "Linux"),
    reason="the float environment is laid out otherwise",
)
@pytest.mark.parametrize("mode", [FLUSH, UPWARD << 3])
@pytest.mark.parametrize("number", [number for _, number in SETS])
def test_the_float_mode_is_ours_inside_and_the_callers_afterwards(
    number: int, mode: int
) -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_normal((1, 7, 64)).astype(np.float32)
    values[:, ::2] *= np.float32(1e-38)  # products below the normal numbers
    weights = rng.standard_normal((1, 7)).astype(np.float32)
    expected, found = floats(1, 64), floats(1, 64)
    call("weighted_sum", [values, weights, expected], number)
    environment = FloatEnvironment()
    wanted = environment.mxcsr() | mode
    environment.set_mxcsr(wanted)
    try:
        call("weighted_sum", [values, weights, found], number)
        after = environment.mxcsr()
    finally:
        environment.restore()
    assert found.tobytes() == expected.tobytes()
    assert after == wanted


def test_a_set_that_is_not_here_is_refused() -> None:
    with pytest.raises(KernelUnavailable, match="avx9"):
        NativeRows("avx9")


def test_without_the_extension_there_is_no_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_MODULE", "mobile_worker.arithmetic.native._not_built")
    assert row_sets() == {}
    with pytest.raises(KernelUnavailable) as caught:
        NativeRows("avx2")
    assert "compiler" in caught.value.advice


@built
def test_runs_that_do_not_fit_are_refused() -> None:
    good = GOOD["attend_runs"]()
    first, second = good[3]
    keys, values, _, _, mask = second
    wrong = [
        *(None, 1, [first, second], (), (first,), (first, second, second)),
        *((first, None), (first, second[:4]), (first, (*second, None))),
    ]
    frozen = keys.copy()
    frozen.flags.writeable = False
    runs = [
        *((keys, values, at, 1, None) for at in (4, -1, 1 << 63, 2**64 - 1, "x", None)),
        *((keys, values, 0, n, None) for n in (0, 2, -1, 1 << 63, 2**64 - 1, 1.5)),
        (None, values, 3, 1, None),
        (keys, keys, 3, 1, None),
        (keys[:, :8], values, 3, 1, None),
        (floats(2, 16, 4), values, 3, 1, None),
        (keys, floats(5, 1, 16), 3, 1, None),
        (keys, floats(3, 1, 24), 3, 1, None),
        (frozen, values, 3, 1, None),
        (keys, values, 3, 1, mask[:, :, :3]),
        (keys, values, 3, 1, floats(1, 1, 4)),
    ]
    for each in (*wrong, *((first, run) for run in runs)):
        with pytest.raises((ValueError, TypeError, OverflowError, BufferError)):
            call("attend_runs", [*good[:3], each, *good[4:]])
