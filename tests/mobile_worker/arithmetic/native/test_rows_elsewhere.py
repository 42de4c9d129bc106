"""The row operations where this process cannot go: aarch64, and under sanitizers."""

import importlib.util
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.native.rows import row_sets
from p2pmoe.model.row_operations import NUMPY_OPERATIONS
from tests.support.driven_rows import DrivenRows, build_driver
from tests.support.row_cases import CASES

pytestmark = pytest.mark.slow
N_CASES = 300
ZIG = [sys.executable, "-m", "ziglang", "cc"]
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")


def check(driven: DrivenRows) -> None:
    with np.errstate(all="ignore"):
        for case in CASES:
            for seed in range(N_CASES):
                expected = case(NUMPY_OPERATIONS, np.random.default_rng(seed))
                found = case(driven, np.random.default_rng(seed))
                assert found == expected, f"{case.__name__} of seed {seed}"
    driven.close()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("instruction_set", row_sets())
def test_sanitizers_find_nothing(tmp_path: Path, instruction_set: str) -> None:
    flags = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = build_driver(tmp_path, ["cc"], instruction_set, *flags)
    check(DrivenRows(instruction_set, ["env", "ASAN_OPTIONS=detect_leaks=0", program]))


@pytest.mark.skipif(QEMU is None, reason="no qemu-aarch64")
@pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="no cross compiler"
)
@pytest.mark.parametrize("instruction_set", ["neon", "portable"])
def test_aarch64_gives_the_same_bytes(tmp_path: Path, instruction_set: str) -> None:
    compiler = [*ZIG, "-target", "aarch64-linux-musl"]
    program = build_driver(tmp_path, compiler, instruction_set, "-O3")
    check(DrivenRows(instruction_set, [QEMU, program]))
