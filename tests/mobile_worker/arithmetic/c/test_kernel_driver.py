"""The C sources outside Python: under sanitisers, by clang, on emulated processors.

Three builds of one driver (tests/support/kernel_driver.c), each run on every set of
instructions that it finds: gcc's with the sanitisers of addresses and undefined
behaviour; clang's as it would be shipped; clang's for aarch64, emulated, with the
sanitiser of undefined behaviour. All give the golden bytes, and numpy's on ten thousand
random calls, whatever float mode the process has set and wherever the buffers lie.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from mobile_worker.arithmetic.self_test import SELF_TEST_DIGEST, self_test
from tests.support.kernel_check_cases import random_checks
from tests.support.kernel_checks import Layout, NumpyRecorder, run_checks
from tests.support.kernel_driver import (
    BUILDS,
    Case,
    Driver,
    Mode,
    Operation,
    Place,
    build_driver,
    float_bits,
    need_tool,
    stream_of,
)
from tests.support.kernel_vector_checks import vector_checks
from tests.support.row_cases import CASES
from tests.support.row_recorder import RowRecorder

pytestmark = pytest.mark.slow
SEED = 20_260_729
N_EACH = 1_000  # of ten calls
N_ROW_CASES = 150  # of each of seven operations


# Processors that are emulated, with what is found on them; no emulator has AVX-512.
PROCESSORS = {
    ("clang", "qemu-x86_64-static", "Nehalem"): ["portable"],
    ("clang", "qemu-x86_64-static", "Haswell"): ["portable", "avx2"],
    ("aarch64", "qemu-aarch64-static", "cortex-a53"): ["portable"],
    ("aarch64", "qemu-aarch64-static", "cortex-a76"): ["portable", "neon"],
}


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Driver]:
    """Return what builds a driver by its name, each once."""
    return cache(lambda name: build_driver(BUILDS[name], tmp_path_factory.mktemp(name)))


@pytest.fixture(params=list(BUILDS))
def driver(request: pytest.FixtureRequest, builds: Callable[[str], Driver]) -> Driver:
    return builds(request.param)


@cache
def the_random_checks():
    return random_checks(SEED, N_EACH)


@cache
def the_row_checks():
    recorder = RowRecorder()
    with np.errstate(all="ignore"):
        for seed in range(N_ROW_CASES):
            for case in CASES:
                case(recorder, np.random.default_rng(seed))
    return recorder.checks


@pytest.mark.parametrize(("build", "emulator", "processor"), PROCESSORS)
def test_a_processor_runs_what_it_has(
    builds: Callable[[str], Driver], build: str, emulator: str, processor: str
) -> None:
    need_tool(emulator)
    driver = builds(build).on(emulator, "-cpu", processor)
    assert driver.sets() == PROCESSORS[build, emulator, processor]
    for own in driver.sets():
        run_checks(driver, own, vector_checks(Layout()))


@pytest.mark.parametrize("mode", list(Mode))
def test_golden_bytes(driver: Driver, mode: Mode) -> None:
    checks = vector_checks(Layout(mode, odd=mode in {Mode.PLAIN, Mode.FLUSH_TO_ZERO}))
    assert len(checks) > 300
    for own in driver.sets():
        run_checks(driver, own, checks)


def test_the_self_test(driver: Driver) -> None:
    recorder = NumpyRecorder()
    assert self_test(recorder) == SELF_TEST_DIGEST
    for own in driver.sets():
        run_checks(driver, own, recorder.checks)


def test_ten_thousand_random_calls(driver: Driver) -> None:
    checks = the_random_checks()
    assert len(checks) == 10_000
    assert {check.outcome for check in checks} == {0, 1, 2}
    for own in driver.sets():
        run_checks(driver, own, checks)


def test_a_thousand_row_operations(driver: Driver) -> None:
    for own in driver.sets():
        run_checks(driver, own, the_row_checks())


def test_what_is_no_number_comes_out_as_none(driver: Driver) -> None:
    """A sanitiser sees a NaN that is made an integer on the way (in softmax's exp)."""
    logits = np.array([[1.0, np.nan, 3.0]], np.float32)
    numbers = (1, 3, 2, float_bits(1.0), 1, 1, 1, 1)
    places = (Place(logits.tobytes()), Place(None))
    case = Case(Operation.CHOOSE, numbers, places)
    for own in driver.sets():
        (answer,) = driver.run(own, [case])
        assert np.isnan(np.frombuffer(answer.result[16:], "<f4")).all()


def test_what_is_no_stream_is_refused(driver: Driver) -> None:
    """Cut short anywhere, or with bytes changed: refused with a line, or computed."""
    rng = np.random.default_rng(SEED)
    checks = random_checks(1, 1)
    recorder = RowRecorder()
    with np.errstate(all="ignore"):
        for case in CASES:
            case(recorder, rng)
    for check in checks + recorder.checks:
        stream = stream_of("portable", [check.case])
        changed = bytearray(stream)
        for at in rng.integers(20, 20 + 12 * len(check.case.numbers), 3):
            changed[min(int(at), len(changed) - 1)] = int(rng.integers(256))
        for wrong in (stream[: int(rng.integers(1, len(stream)))], bytes(changed)):
            done = driver.run_raw(wrong)
            assert done.returncode in {0, 2}, done.stderr
            assert (done.returncode == 2) == done.stderr.startswith(b"kernel driver: ")


def test_calls_that_do_not_fit_are_refused(driver: Driver) -> None:
    empty = Case(Operation.PRODUCT, (), ())
    far = Case(Operation.CODE_I8, (1 << 62,), (Place(bytes(128)),))
    short = Case(Operation.CODE_I8, (64,), (Place(bytes(128)),))
    uneven = Case(Operation.CODE_I8, (32,), (Place(bytes(128), shift=1),))
    for case in (empty, far, short, uneven):
        assert driver.run_raw(stream_of("portable", [case])).returncode == 2
    for stream in (b"", b"P2PK", stream_of("avx9", [])):
        assert driver.run_raw(stream).returncode == 2
