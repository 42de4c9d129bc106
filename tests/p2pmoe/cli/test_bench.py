"""`p2pmoe bench kernels`: every kernel is listed, the right ones are measured."""

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from mobile_worker.arithmetic.candidates import KERNEL_NAMES, Candidate, Keeps
from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.cli import bench
from p2pmoe.cli.bench import bench_kernels, register
from p2pmoe.cli.computing import KERNEL_VARIABLE
from tests.support.flawed_kernel import OneBitKernel

FORMATS = (Format.F32, Format.Q4_0)


@pytest.fixture(autouse=True)
def _few_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_formats", lambda: FORMATS)


def missing(_: int) -> Kernel:
    raise KernelUnavailable("not built", advice="install a C compiler")


CANDIDATES = (
    Candidate(name="native/avx2", keeps=Keeps.NOTHING, open=missing),
    Candidate(
        name="wasm/plain",
        keeps=Keeps.COPIES,
        open=lambda n: OneBitKernel(decoded_cache_bytes=n),
    ),
    Candidate(
        name="numpy",
        keeps=Keeps.UNPACKED,
        open=lambda n: NumpyKernel(decoded_cache_bytes=n),
    ),
)


def invoke(monkeypatch: pytest.MonkeyPatch, *arguments: str):
    monkeypatch.setattr(bench, "_WITHIN_S", 0.0)
    monkeypatch.setattr(
        "mobile_worker.arithmetic.candidates.kernel_candidates",
        lambda n_threads=1: CANDIDATES,
    )
    app = typer.Typer()
    register(app)
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["bench", "kernels", *arguments])


def test_kernels_are_tried_and_those_that_are_right_are_measured() -> None:
    shares: list[float] = []
    found = bench_kernels(CANDIDATES, None, shares.append, within_s=0.0)
    assert [each.state for each in found.kernels] == ["missing", "failed", "chosen"]
    assert [each.self_test for each in found.kernels] == ["-", "wrong", "right"]
    assert shares == pytest.approx([1 / 3, 2 / 3, 1.0])
    rates = found.kernels[2].rates
    assert set(rates) == set(FORMATS)
    assert all(rate > 0 for each in rates.values() for rate in each.values())
    assert found.kernels[0].rates == {}


def test_tables_name_every_kernel_and_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = invoke(monkeypatch)
    lines = result.stdout.splitlines()
    assert lines[0].split("\t") == ["kernel", "state", "self_test", "note"]
    assert lines[1].split("\t") == ["native/avx2", "missing", "-", "not built"]
    assert lines[5].split("\t") == ["format", "rows", "numpy"]
    assert lines[6].startswith("F32\t1\t")
    assert result.stderr.splitlines() == [
        "Multiply-adds a second, in G",
        "kernel wasm/plain is not used: "
        "its self-test gives other bytes than the specification",
        "not built: install a C compiler",
    ]


def test_json_holds_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(invoke(monkeypatch, "--json").stdout)
    assert (document["chosen"], document["forced_by"]) == ("numpy", None)
    native, wasm, numpy = document["kernels"]
    assert (native["state"], native["reason"]) == ("missing", "not built")
    assert (wasm["state"], wasm["self_test"]) == ("failed", "wrong")
    assert numpy["macs_per_second"]["Q4_0"]["8"] > 0


def test_one_that_is_forced_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KERNEL_VARIABLE, "numpy")
    lines = invoke(monkeypatch).stdout.splitlines()
    assert lines[3].split("\t") == [
        "numpy",
        "chosen",
        "right",
        "forced by P2PMOE_KERNEL=numpy",
    ]
    document = json.loads(invoke(monkeypatch, "--json").stdout)
    assert document["forced_by"] == "P2PMOE_KERNEL=numpy"


def test_of_several_passes_the_best_rate_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_formats_by_rows = len(FORMATS) * len(bench.N_ROWS)
    disturbed = [7] * n_formats_by_rows + [9] * n_formats_by_rows
    measured = iter([*disturbed, *[8] * n_formats_by_rows])
    monkeypatch.setattr(
        "mobile_worker.arithmetic.rate.rate_of", lambda *_, **__: next(measured)
    )
    rates = bench._rates(NumpyKernel(), 0.0)
    assert rates == {each: dict.fromkeys(bench.N_ROWS, 9) for each in FORMATS}
    assert next(measured, None) is None


def test_its_help_is_not_cut_short() -> None:
    app = typer.Typer(rich_markup_mode=None)
    register(app)
    app.command("other")(lambda: None)
    shown = CliRunner().invoke(app, ["bench", "--help"]).stdout
    (line,) = [each for each in shown.splitlines() if "  kernels  " in each]
    assert line.endswith("machine's kernels.")


def test_a_kernel_that_is_not_there_ends_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KERNEL_VARIABLE, "native")
    error = invoke(monkeypatch).exception
    assert isinstance(error, KernelUnavailable)
    assert error.advice == "install a C compiler"


@pytest.mark.slow
def test_the_real_command_lists_all_kernels() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "p2pmoe", "bench", "kernels", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [each["name"] for each in document["kernels"]] == list(KERNEL_NAMES)
    assert {each["state"] for each in document["kernels"]} <= {
        "chosen",
        "passed",
        "missing",
    }
