"""`p2pmoe eval run`: what is asked, what is refused, what is stored."""

import json
from collections.abc import Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from p2pmoe.cli.main import build_app
from p2pmoe.errors import ConfigurationError
from p2pmoe.evaluate import asking, serving
from p2pmoe.evaluate.asking import ServedCard
from p2pmoe.evaluate.errors import RunsDiffer, RunUnreadable, SetRefused
from p2pmoe.evaluate.store import load_run, save_run
from p2pmoe.evaluate.weights_digest import known_weights, read_weights
from p2pmoe.weights.model_file import open_model
from tests.support.evaluations import (
    CONFIGURATION,
    RUN,
    ScriptedApi,
    echo_document,
    streamed,
)
from tests.support.mini_m3 import write_mini_m3

TASK = '{"kind": "answer", "id": "a", "prompt": "p", "expect": "on"}'


def run(*arguments: str):
    return CliRunner().invoke(build_app(), ["eval", "run", *arguments])


class Served(ScriptedApi):
    """A backbone that is ready, serves `pocket`, and says "on" to everything."""

    def __init__(self) -> None:
        def ask(_path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
            return echo_document(["a", "b", "c", "d"], [None, -1.0, -1.0, -1.0])

        super().__init__(ask=ask, stream=lambda *_: streamed("on"))
        self.configuration: Mapping[str, Any] | None = CONFIGURATION.document()

    async def ready(self) -> str:
        return ""

    async def card(self) -> ServedCard:
        return ServedCard(name="pocket", configuration=self.configuration)


@pytest.fixture
def served(monkeypatch) -> Iterator[Served]:
    """Take the place of a backbone, wherever it is."""
    own = Served()

    @asynccontextmanager
    async def open_api(url: str, key: str = ""):
        own.seen.append(("open", {"url": url, "key": key}))
        yield own

    @asynccontextmanager
    async def serve(folder: Path, wanted, tell):
        own.seen.append(("serve", {"wanted": wanted, "folder": folder}))
        yield own

    monkeypatch.setattr(asking, "open_api", open_api)
    monkeypatch.setattr(serving, "open_api", open_api)
    monkeypatch.setattr(serving, "serving", serve)
    return own


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("one two three four " * 30)
    return path


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "set.jsonl"
    path.write_text(TASK)
    return path


def test_a_backbone_elsewhere_is_measured_and_stored(served, text, tasks, tmp_path):
    key = tmp_path / "key"
    key.write_text("secret\n")
    runs = tmp_path / "runs"
    done = run(
        *("--url", "http://there", "--text", str(text), "--set", str(tasks)),
        *("--windows", "2", "--window-tokens", "16", "--save", str(runs), "--json"),
        *("--api-key-file", str(key)),
    )
    assert (done.exit_code, done.exception) == (0, None)
    assert served.seen[0] == ("open", {"url": "http://there", "key": "secret"})
    document = json.loads(done.stdout)
    assert document["figures"]["answer_accuracy"] == 1.0
    assert document["inputs"]["text"]["cut_by"] == "characters"
    stored = load_run(Path(document["file"]))
    assert stored.digest == CONFIGURATION.digest
    assert f"stored as {document['file']}" in done.stderr
    # And with it as the reference.
    done = run(
        *("--url", "http://there", "--text", str(text), "--reference", "last"),
        *("--windows", "2", "--window-tokens", "16", "--save", str(runs)),
    )
    assert "top1_agreement\t1.0\t" in done.stdout


def test_a_model_is_served_with_its_options_and_its_weights_are_known(
    served, tasks, tmp_path
):
    model = write_mini_m3(tmp_path / "m.gguf")
    served.configuration = None
    runs = tmp_path / "runs"
    arguments = ["--set", str(tasks), "--save", str(runs), "--", "--ram", "8G"]
    done = run(str(model), *arguments)
    assert (done.exit_code, done.exception) == (0, None)
    wanted = served.seen[0][1]["wanted"]
    assert (wanted.model, list(wanted.options)) == (str(model), ["--ram", "8G"])
    with open_model(model) as opened:
        assert known_weights(opened, runs) == read_weights(opened)


def test_another_model_than_the_one_served_is_refused(served, tasks, tmp_path):
    model = write_mini_m3(tmp_path / "m.gguf")
    done = run(str(model), "--url", "there", "--set", str(tasks))
    assert isinstance(done.exception, BaseExceptionGroup | ConfigurationError)
    assert "is not the model 'pocket'" in repr(done.exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "neither a model nor a --url"),
        (["pocket"], "nothing to measure on"),
        (["pocket", "extra", "--set", "SET"], "'extra' is one argument too many"),
        (["--url", "u", "--set", "SET", "--", "x", "--ram"], "say nothing with --url"),
        (["--url", "u", "--set", "SET", "--reference", "RUN"], "needs the --text"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, words, tasks, tmp_path):
    stored = save_run(tmp_path, RUN)
    names = {"SET": str(tasks), "RUN": str(stored)}
    done = run(*(names.get(each, each) for each in arguments))
    assert isinstance(done.exception, ConfigurationError)
    assert words in str(done.exception)


def test_files_are_looked_at_before_anything_is_started(text, tasks, tmp_path):
    tasks.write_text("{")
    done = run("pocket", "--set", str(tasks))
    assert isinstance(done.exception, SetRefused)
    assert "set.jsonl, line 1" in str(done.exception)
    done = run("pocket", "--text", str(text), "--reference", str(tmp_path / "x.json"))
    assert isinstance(done.exception, RunUnreadable)
    bare = tmp_path / "bare"
    path = save_run(bare, RUN.__class__(
        made=RUN.made, model="m", configuration=None, text=None, tasks_from=None,
        figures={},
    ))  # fmt: skip
    measure = ["--text", str(text), "--window-tokens", "16"]
    done = run("pocket", *measure, "--reference", str(path))
    assert isinstance(done.exception, RunsDiffer)


def test_options_alone_may_name_a_manifest(served, tasks, tmp_path):
    done = run(
        *("--set", str(tasks), "--save", str(tmp_path)),
        *("--", "--manifest", "https://h/m"),
    )
    assert (done.exit_code, done.exception) == (0, None)
    wanted = served.seen[0][1]["wanted"]
    assert (wanted.model, list(wanted.options)) == (None, ["--manifest", "https://h/m"])
