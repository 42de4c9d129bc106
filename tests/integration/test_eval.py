"""`p2pmoe eval` on real files: a fine model, a coarser one, a damaged one, in order."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from p2pmoe.evaluate.perplexity import chunks_of, perplexity
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model
from tests.support.command_line import run
from tests.support.damaged_model import write_damaged
from tests.support.kernels import fastest_kernel
from tests.support.shared import shared_path
from tests.support.tiny_model import load_local

EXAMPLE = Path(__file__).resolve().parents[2] / "docs/reference/pocket-tasks.jsonl"
N_WINDOWS = 6

pytestmark = pytest.mark.slow


def pocket(name: str) -> Path:
    return shared_path(f"models/pocket/{name}")


def evaluated(runs: Path, model: Path, *arguments: str) -> dict:
    done = run("eval", str(model), "--save", str(runs), "--json", *arguments)
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    fine = pocket("pocket-q8_0.gguf")
    return {
        "fine": fine,
        "coarse": pocket("pocket-q2_k.gguf"),
        "damaged": write_damaged(fine, folder / "damaged.gguf", share=0.25),
    }


def test_it_ranks_a_fine_a_coarse_and_a_damaged_model(models, tmp_path: Path):
    text = str(pocket("held-out.txt"))
    measure = ["--text", text, "--windows", str(N_WINDOWS)]
    measure += ["--continuations", "4", "--tokens", "24"]
    reference = evaluated(tmp_path, models["fine"], *measure)
    found = {
        name: evaluated(tmp_path, path, *measure, "--reference", reference["file"])
        for name, path in models.items()
    }
    figures = {name: run["figures"] for name, run in found.items()}
    by_loss = sorted(figures, key=lambda name: figures[name]["perplexity"])
    assert by_loss == ["fine", "coarse", "damaged"]
    for agreement in ("top1_agreement", "greedy_agreement"):
        ranked = sorted(figures, key=lambda name: -figures[name][agreement])
        assert ranked == ["fine", "coarse", "damaged"], agreement
        assert figures["fine"][agreement] == 1.0
    apart = [figures[name]["logprob_difference"] for name in by_loss]
    assert apart[0] == 0.0 < apart[1] < apart[2]
    assert_the_figure_is_that_of_one_process(models["fine"], figures["fine"])
    assert_changes_are_named(found, tmp_path)


def assert_the_figure_is_that_of_one_process(model: Path, figures: dict) -> None:
    text = pocket("held-out.txt").read_text(encoding="utf-8")
    with open_model(model) as model_file:
        ids = load_tokenizer(model_file).encode(text, bos=True)
    own = load_local(model, fastest_kernel())
    chunks = list(chunks_of(ids, ids[0]))[:N_WINDOWS]
    oracle = perplexity(own.model, own.experts, chunks)
    assert figures["perplexity"] == pytest.approx(oracle.value, rel=1e-6)


def assert_changes_are_named(found: dict[str, dict], runs: Path) -> None:
    """Damage shows in nothing but the weights; a format in the parts that have it."""

    def changed(one: str, other: str) -> set[str]:
        files = [found[name]["file"] for name in (one, other)]
        done = run("eval", "compare", *files, "--json")
        assert done.code == 0, done.err
        return {row["variable"] for row in json.loads(done.out)["variables"]}

    assert changed("fine", "damaged") == {"weights"}
    assert "formats: routed experts" in changed("fine", "coarse")
    done = run("eval", "timeline", "--save", str(runs), "--json")
    moments = json.loads(done.out)
    assert [moment["changed"] != [] for moment in moments] == [True, False, True, True]


def test_the_example_set_is_measured_and_serve_then_has_evidence(tmp_path: Path):
    runs = tmp_path / "backbone" / "evaluations"
    found = evaluated(runs, Path("pocket"), "--set", str(EXAMPLE))
    figures = found["figures"]
    assert {"answer_accuracy", "format_valid", "long_repetition"} <= set(figures)
    assert {"first_token_p50_s", "per_token_p50_s"} <= set(figures)
    assert figures["format_valid"] > 0  # the constrained ones at least
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    assert found["inputs"]["set"]["n_tasks"] == sum(
        line.startswith("{") for line in lines
    )
    for data, code in ((runs.parent, 0), (tmp_path / "none", 2)):
        assert serve_with_evidence(data) == code


def serve_with_evidence(data: Path) -> int:
    """Return how a `serve` ends that requires an evaluation; one that runs is ended."""
    command = [sys.executable, "-m", "p2pmoe", "serve", "pocket"]
    command += ["--listen", "127.0.0.1:0", "--data", str(data), "--require-evaluation"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if " ready" in line:
                child.terminate()
        return child.wait(30)
