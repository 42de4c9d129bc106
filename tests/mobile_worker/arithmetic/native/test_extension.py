"""The extension itself: a buffer that does not fit is refused before it is read."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.native.extension import (
    BUILD_AGAIN,
    build_again,
    load_extension,
)
from mobile_worker.arithmetic.native.native_kernel import native_sets
from mobile_worker.arithmetic.self_test import FORMATS, fixed_matrix

ROOT = Path(__file__).resolve().parents[4]
SETS = native_sets()
built = pytest.mark.skipif(not SETS, reason="the extension is not built")
N, N_COLS, N_FF = 3, 256, 64


def off_its_place(n_bytes: int) -> np.ndarray:
    """Return bytes at an address that is no multiple of 2."""
    room = np.zeros(n_bytes + 16, np.uint8)
    start = -room.ctypes.data % 8 + 1
    return room[start : start + n_bytes]


def matrix(own: Format, n_rows: int, n_cols: int) -> list:
    raw = fixed_matrix("m", own, n_rows, n_cols).raw
    return [int(own), n_rows, n_cols, raw, np.zeros(n_rows, "f4")]


def rows() -> list:
    """Return codes, scales and floats."""
    return [
        np.ones((N, N_COLS), np.int8),
        np.ones((N, N_COLS // 32), "f4"),
        np.ones((N, N_COLS), "f4"),
    ]


def product(own: list, x: list, out: object, *, at: tuple[int, int] = (8, 2)) -> int:
    return load_extension().product(SETS[0], tuple(own), *x, N, out, *at)


def place() -> np.ndarray:
    return np.zeros((N, 8), "f4")


def wrong_buffers(good: np.ndarray, *, aligned: bool, written: bool = False) -> list:
    """Return buffers a byte short or long, off their place, or none at all."""
    raw = bytearray(good.tobytes())
    wrong: list = [raw[:-1], raw + b"\0", bytearray(), object(), 7]
    if aligned:
        wrong.append(off_its_place(good.nbytes))
    if written:
        wrong.append(bytes(raw))
    return wrong


REFUSED = (ValueError, TypeError, BufferError)


@built
@pytest.mark.parametrize("own", FORMATS)
def test_a_product_s_buffers_must_fit(own: Format) -> None:
    good = matrix(own, 5, N_COLS)
    assert product(good, rows(), place()) == 0
    for raw in (good[3][:-1], bytes(good[3]) + b"\0", b"", None):
        with pytest.raises(REFUSED):
            product([*good[:3], raw, None], rows(), place())
    for bias in wrong_buffers(good[4], aligned=True):
        with pytest.raises(REFUSED):
            product([*good[:4], bias], rows(), place())
    for at, aligned in ((0, False), (1, True), (2, True)):
        for wrong in wrong_buffers(rows()[at], aligned=aligned):
            x = rows()
            x[at] = wrong
            with pytest.raises(REFUSED):
                product(good, x, place())
    for wrong in wrong_buffers(place(), aligned=True, written=True):
        with pytest.raises(REFUSED):
            product(good, rows(), wrong)


@built
@pytest.mark.parametrize(
    ("own", "n_rows", "n_cols"),
    [
        (4, 5, 256),  # no format
        (99, 5, 256),
        (-1, 5, 256),
        (int(Format.Q4_0), 0, 256),
        (int(Format.Q4_0), -5, 256),
        (int(Format.Q4_0), 5, 255),
        (int(Format.Q4_0), 5, -256),
        (int(Format.F32), 5, 8),  # no multiple of 32
        (int(Format.Q4_K), 5, 128),  # off a block's border
        (int(Format.NVFP4), 5, 32),
        (int(Format.Q8_0), 1 << 40, 256),
        (int(Format.Q8_0), 5, 1 << 40),
        (int(Format.Q8_0), 5, 288),  # a width that the rows do not have
    ],
)
def test_a_matrix_of_no_possible_shape_is_refused(
    own: int, n_rows: int, n_cols: int
) -> None:
    raw = bytes(matrix(Format.Q4_0, 5, N_COLS)[3])
    with pytest.raises(ValueError, match=r"no matrix|bytes, not"):
        product([own, n_rows, n_cols, raw, None], rows(), place())


@built
@pytest.mark.parametrize("at", [(8, 4), (4, 0), (8, -1), (-8, 0), (1 << 62, 0), (8, 8)])
def test_results_must_fit_their_place(at: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        product(matrix(Format.Q4_0, 5, N_COLS), rows(), place(), at=at)


@built
@pytest.mark.parametrize("name", ["", "avx9000", "numpy"])
def test_an_unknown_set_is_refused(name: str) -> None:
    good = tuple(matrix(Format.Q4_0, 5, N_COLS))
    with pytest.raises(ValueError, match="no instruction set"):
        load_extension().product(name, good, *rows(), N, place(), 8, 2)


def call() -> list:
    """Return kind, alpha, limit, gate, up, down, rows."""
    gate, up = (tuple(matrix(Format.Q4_0, N_FF, N_COLS)) for _ in "gu")
    down = tuple(matrix(Format.Q8_0, N_COLS, N_FF))
    return [0, 1.0, 7.0, gate, up, down, np.array([2, 0])]


def run(
    own: list, out: object, *, result: int = 1, x: list | None = None, n: int = N
) -> int:
    calls, outs = (tuple(own),), (out,)
    extension = load_extension()
    return extension.experts(SETS[0], calls, *(x or rows()), n, N_COLS, result, outs)


def results() -> np.ndarray:
    return np.zeros((2, N_COLS * 68 // 32), np.uint8)


@built
def test_an_expert_s_buffers_must_fit() -> None:
    assert run(call(), results()) == 0
    for wrong in wrong_buffers(results(), aligned=True, written=True):
        with pytest.raises(REFUSED):
            run(call(), wrong)
    for chosen in (
        *(np.array(each) for each in ([0, 3], [-1, 0], [1 << 40, 0])),
        np.array([0, 1], np.int32),
        np.array([0, 1, 2]),
        off_its_place(16).view("<i8"),
        b"",
        5,
    ):
        with pytest.raises(REFUSED):
            run([*call()[:6], chosen], results())


@built
def test_matrices_must_make_an_expert() -> None:
    narrow = tuple(matrix(Format.Q4_0, 32, N_COLS))
    for at, wrong in (
        (0, 2),
        (0, -1),
        (3, narrow),
        (4, narrow),
        (5, tuple(matrix(Format.Q8_0, N_COLS, 32))),
        (5, tuple(matrix(Format.Q8_0, 33, N_FF))),
        (5, None),
        (3, ()),
    ):
        own = call()
        own[at] = wrong
        with pytest.raises(REFUSED):
            run(own, results())
    for own in ([], call()[:6], [*call(), 1]):
        with pytest.raises(TypeError):
            run(own, results())
    for result in (-1, 6):
        with pytest.raises(ValueError, match="do not fit"):
            run(call(), results(), result=result)


@built
def test_rows_of_another_number_are_refused() -> None:
    for n in (-1, 2, 4, 1 << 40):
        with pytest.raises(ValueError, match=r"bytes, not|fit|no possible shape"):
            run(call(), results(), n=n)
    coded, scales, floats = rows()
    for x in ([None, scales, floats], [coded, None, floats], [None, None, None]):
        with pytest.raises(REFUSED):
            run(call(), results(), x=x)


@built
def test_rows_to_be_coded_must_fit() -> None:
    def code(x: object, n: int, codes: object, scales: object) -> int:
        return load_extension().code_rows(SETS[0], x, n, codes, scales)

    x, codes, scales = np.ones(64, "f4"), np.ones(64, np.int8), np.ones(2, "f4")
    assert code(x, 64, codes, scales) == 0
    for wrong in wrong_buffers(x, aligned=True):
        with pytest.raises(REFUSED):
            code(wrong, 64, codes, scales)
    for wrong in wrong_buffers(codes, aligned=False, written=True):
        with pytest.raises(REFUSED):
            code(x, 64, wrong, scales)
    for wrong in wrong_buffers(scales, aligned=True, written=True):
        with pytest.raises(REFUSED):
            code(x, 64, codes, wrong)
    for n in (-32, 63, 32, 96, 1 << 61):
        with pytest.raises(REFUSED):
            code(x, n, codes, scales)


@built
def test_thousands_of_hostile_calls_crash_nothing() -> None:
    """In a process of its own, which a read out of bounds might end.

    `-X dev` has Python look for writes past the ends of what it allocated.
    """
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-m", "tests.support.extension_fuzz"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    computed, refused = map(int, done.stdout.split())
    assert computed > 1_000
    assert refused > 5_000


def test_without_it_the_advice_is_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mobile_worker.arithmetic.native._kernel", None)
    with pytest.raises(KernelUnavailable, match="not built") as caught:
        load_extension()
    assert "C compiler" in caught.value.advice
    assert caught.value.advice.endswith(BUILD_AGAIN)
    assert native_sets() == ()


def test_a_clone_is_built_by_make_and_an_install_by_pip(tmp_path: Path) -> None:
    assert build_again(ROOT) == BUILD_AGAIN
    assert BUILD_AGAIN == "rm -f .venv/.installed && make .venv/.installed"
    assert " --no-cache-dir " in build_again(tmp_path)
