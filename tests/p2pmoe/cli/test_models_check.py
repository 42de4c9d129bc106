"""`p2pmoe models check`: what it prints and its exit codes."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.check import check
from p2pmoe.check.check import CheckOptions, CheckReport
from p2pmoe.check.comparison import Comparison
from p2pmoe.check.worker_network import Scattering
from p2pmoe.cli.main import build_app
from p2pmoe.errors import ConfigurationError
from tests.support.mini_m3 import write_mini_m3
from tests.support.references import made_up_reference, write_reference
from tests.support.scattered_checks import locally_produced

FOUND = Comparison(
    max_abs_error=1e-4, worst_row=7, n_rows=8, n_greedy=24, n_greedy_equal=24
)


def run(*arguments: str):
    return CliRunner().invoke(build_app(), ["models", "check", *arguments])


@pytest.fixture
def asked(monkeypatch) -> list[CheckOptions]:
    """Return what the check is asked; it answers with two workers' report."""
    options: list[CheckOptions] = []

    def check_model(own: CheckOptions, tell) -> CheckReport:
        options.append(own)
        scattering = Scattering(
            calls={"worker-1": 50, "worker-2": 64}, n_calls_here=0, n_failovers=1
        )
        return CheckReport(
            architecture="minimax-m3",
            kernel="numpy",
            comparison=FOUND,
            scattering=scattering if own.n_workers else None,
        )

    monkeypatch.setattr(check, "check_model", check_model)
    return options


def test_defaults_are_exact_and_local(asked):
    done = run("m.gguf", "--reference", "r.npz")
    assert (done.exit_code, done.exception) == (0, None)
    [options] = asked
    assert (options.profile, options.n_workers) == (Profile.R32, 0)
    rows = dict(line.split("\t") for line in done.stdout.splitlines())
    assert rows["largest error"] == "0.0001"
    assert rows["equal greedy ids"] == "24 of 24"
    assert rows["result"] == "the same"
    assert "calls computed here" not in rows


def test_workers_are_told_one_by_one(asked):
    done = run("m", "--reference", "r.npz", "--workers", "2", "--profile", "r16")
    [options] = asked
    assert (options.profile, options.n_workers) == (Profile.R16, 2)
    rows = dict(line.split("\t") for line in done.stdout.splitlines())
    assert (rows["calls of worker-1"], rows["calls of worker-2"]) == ("50", "64")
    assert (rows["calls computed here"], rows["calls asked again"]) == ("0", "1")


def test_json_holds_every_figure(asked):
    done = run("m", "--reference", "r.npz", "--workers", "2", "--json")
    assert json.loads(done.stdout) == {
        "model": "m",
        "reference": "r.npz",
        "architecture": "minimax-m3",
        "kernel": "numpy",
        "profile": "r32",
        "max_abs_error": 1e-4,
        "worst_row": 7,
        "n_rows": 8,
        "tolerance": 2e-4,
        "n_greedy": 24,
        "n_greedy_equal": 24,
        "holds": True,
        "n_workers": 2,
        "calls_by_worker": {"worker-1": 50, "worker-2": 64},
        "n_calls_here": 0,
        "n_failovers": 1,
    }


@pytest.mark.usefixtures("asked")
def test_a_difference_is_exit_code_1():
    done = run("m", "--reference", "r.npz", "--tolerance", "1e-5")
    assert done.exit_code == 1
    assert "DIFFERENT" in done.stdout


def test_an_error_without_a_number_is_valid_json(monkeypatch):
    found = Comparison(
        max_abs_error=math.inf, worst_row=0, n_rows=1, n_greedy=1, n_greedy_equal=0
    )
    report = CheckReport(
        architecture="a", kernel="k", comparison=found, scattering=None
    )
    monkeypatch.setattr(check, "check_model", lambda *_: report)
    done = run("m", "--reference", "r.npz", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["max_abs_error"] is None


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--tolerance", "nan", "--tolerance nan"),
        ("--tolerance", "-1", "--tolerance -1"),
        ("--profile", "r64", "unknown --profile 'r64'"),
    ],
)
def test_options_that_cannot_be_are_refused(asked, option, value, words):
    done = run("m", "--reference", "r.npz", option, value)
    assert isinstance(done.exception, ConfigurationError)
    assert words in str(done.exception)
    assert not asked


def test_a_real_model_that_differs_is_told_so(tmp_path):
    model = write_mini_m3(tmp_path / "mini.gguf")
    wanted = made_up_reference()
    made = locally_produced(model, wanted, Profile.R32)
    good = {"prompt": wanted.prompt, "rows": wanted.rows, "greedy": made.greedy}
    reference = write_reference(tmp_path / "r.npz", logits=made.logits, **good)
    assert run(str(model), "--reference", str(reference)).exit_code == 0
    bent = made.logits + np.float32(0.01)
    reference = write_reference(tmp_path / "r.npz", logits=bent, **good)
    done = run(str(model), "--reference", str(reference), "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["max_abs_error"] == pytest.approx(0.01, rel=1e-3)
    assert found["n_greedy_equal"] == 4


def test_a_difference_of_rounded_weights_may_be_no_fault(monkeypatch):
    for rounded, is_said in ((("Q4_0", "Q8_0"), True), ((), False)):
        report = CheckReport(
            architecture="olmoe",
            kernel="numpy",
            comparison=FOUND,
            scattering=None,
            rounded=rounded,
        )
        monkeypatch.setattr(check, "check_model", lambda *_, own=report: own)
        done = run("m.gguf", "--reference", "r.npz", "--tolerance", "0")
        assert done.exit_code == 1
        assert ("rounded (Q4_0, Q8_0)" in done.stderr) == is_said
