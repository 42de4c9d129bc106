"""Requests that cannot be served, and options that mean nothing, at the real commands.

A request ends in an error of OpenAI's shape before any expert is called, and the
service goes on; a model file that is cut short under a running service (B03) costs the
requests that need it, not the process.
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.command_line import (
    Outcome,
    Running,
    assert_one_error,
    run,
    run_all,
)

POCKET = Path(__file__).resolve().parents[2] / "p2pmoe/models/pocket-q4_0.gguf"
CONTEXT = 256
WITHIN_S = 60  # gives up on what hangs


class Backbone:
    """A running `serve` without a network, and its API."""

    def __init__(self, folder: Path, model: str, *options: str) -> None:
        self.process = Running(
            folder,
            *("serve", model, "--listen", "127.0.0.1:0"),
            *("--data", str(folder / "data"), *options),
        )
        self.url = "http://{}:{}".format(*self.process.report["listen"])
        self.client = httpx.Client(base_url=self.url, trust_env=False, timeout=WITHIN_S)
        deadline = time.monotonic() + WITHIN_S
        while self.client.get("/readyz").status_code != 200:
            assert self.process.is_running, self.process.log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def ask(self, **body: object) -> httpx.Response:
        return self.client.post("/v1/completions", json=body)

    def expert_calls(self) -> list[str]:
        page = self.client.get("/metrics").text
        return [x for x in page.splitlines() if x.startswith("p2pmoe_expert_calls")]

    def end(self) -> None:
        self.client.close()
        self.process.kill()


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backbone]:
    folder = tmp_path_factory.mktemp("backbone")
    backbone = Backbone(folder, "pocket", "--context", str(CONTEXT))
    yield backbone
    backbone.end()


def assert_refused(answer: httpx.Response, param: str | None, code: str | None) -> None:
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert (error["param"], error["code"]) == (param, code)
    assert "\n" not in error["message"]


def test_b19_a_prompt_longer_than_the_context(backbone: Backbone) -> None:
    before = backbone.expert_calls()
    for words in (CONTEXT + 1, 100_000):
        prompt = [5] * words
        start = time.monotonic()
        answer = backbone.ask(prompt=prompt, max_tokens=1)
        assert_refused(answer, "prompt", "context_length_exceeded")
        assert str(CONTEXT) in answer.json()["error"]["message"]
        assert time.monotonic() - start < 2
    text = "once upon a time " * 5000
    answer = backbone.ask(prompt=text, max_tokens=1)
    assert_refused(answer, "prompt", "context_length_exceeded")
    chat = {"messages": [{"role": "user", "content": text}]}
    answer = backbone.client.post("/v1/chat/completions", json=chat)
    assert_refused(answer, "messages", "context_length_exceeded")
    streamed = backbone.ask(prompt=text, stream=True)
    assert_refused(streamed, "prompt", "context_length_exceeded")
    assert backbone.expert_calls() == before
    assert backbone.ask(prompt="once", max_tokens=2).status_code == 200


def test_b19_a_prompt_too_long_is_one_line_for_its_client(backbone: Backbone) -> None:
    outcome = run("run", "word " * 2000, "--url", backbone.url)
    assert_one_error(outcome, "refused (400)", str(CONTEXT), code=1)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"n": 10**6}, "n"),
        ({"temperature": 999999}, "temperature"),
        ({"top_p": -1}, "top_p"),
        ({"stop": [str(n) for n in range(100_000)]}, "stop"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [1 << 40]}, "prompt"),
    ],
)
def test_b19_a_value_out_of_range_is_named_and_calls_nobody(
    backbone: Backbone, body: dict[str, object], param: str
) -> None:
    before = backbone.expert_calls()
    answer = backbone.ask(**{"prompt": "once", **body})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param
    assert backbone.expert_calls() == before


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 10_000, b'{"prompt": NaN}', b'{"prompt": "a", "prompt": "b"}'],
)
def test_b19_a_body_that_is_no_request(backbone: Backbone, content: bytes) -> None:
    as_json = {"content-type": "application/json"}
    answer = backbone.client.post("/v1/completions", content=content, headers=as_json)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_b03_a_model_cut_short_while_serving_costs_its_requests_only(
    tmp_path: Path,
) -> None:
    model = tmp_path / "model.gguf"
    shutil.copyfile(POCKET, model)
    backbone = Backbone(tmp_path, str(model), "--context", "256", "--ram", "24M")
    try:
        good = backbone.ask(prompt="once upon", max_tokens=4)
        assert good.status_code == 200
        os.truncate(model, 4096)
        start = time.monotonic()
        cut = backbone.ask(prompt="the sea was calm when", max_tokens=16)
        assert time.monotonic() - start < 5
        assert cut.status_code == 503, cut.text
        assert cut.json()["error"]["code"] == "upstream_lost"
        assert "the model file has lost expert" in cut.json()["error"]["message"]
        backbone.process.said(f"{model}: needs ")
        backbone.process.said("has 4096")
        log = backbone.process.log.read_text()
        assert "Traceback" not in log
        assert backbone.client.get("/livez").status_code == 200
        assert backbone.process.stop() == 0
    finally:
        backbone.end()


def test_b03_a_model_replaced_by_rename_is_harmless(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    shutil.copyfile(POCKET, model)
    backbone = Backbone(tmp_path, str(model), "--context", "256", "--ram", "24M")
    try:
        body = {"prompt": "once upon", "max_tokens": 8, "temperature": 0.0}
        before = backbone.ask(**body).json()["choices"]
        (tmp_path / "new").write_text("something else")
        (tmp_path / "new").rename(model)
        assert backbone.ask(**body).json()["choices"] == before
        assert backbone.process.stop() == 0
    finally:
        backbone.end()


# command and options, and what the line must say
OPTIONS = {
    "ram": ("serve pocket --ram -1", "--ram '-1' is no size"),
    "listen": ("serve pocket --listen foo", "--listen 'foo' is not HOST:PORT"),
    "context": ("serve pocket --context x", "invalid value for '--context'"),
    "memory": ("contribute wss://h/relay --memory 5X", "--memory '5X' is no size"),
    "hub": ("contribute wss://h/relay --hub --listen foo", "--listen 'foo'"),
    "url": ("contribute http://h", "does not begin with wss://"),
    "command": ("contribut", "no such command 'contribut'"),
    "option": ("serve pocket --rum 5G", "no such option: --rum"),
}


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    folder = tmp_path_factory.mktemp("options")
    cases = {}
    for name, (words, _) in OPTIONS.items():
        data = () if name == "command" else ("--data", str(folder / name))
        cases[name] = (*words.split(), *data)
    return run_all(cases)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_means_nothing(options: dict[str, Outcome], name: str) -> None:
    assert_one_error(options[name], OPTIONS[name][1])


def test_an_ill_receipt_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    ids = ("--network", "ab" * 32, "--ledger", "ab" * 32, "--market", "ab" * 32)
    path.write_text("[" * 5000)
    assert_one_error(run("ledger", "receipt", "verify", str(path), *ids))
