"""The API client: an answer is whole, or an error of one line says why not."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.client import completions
from p2pmoe.client.completions import (
    ApiError,
    complete,
    complete_chat,
    gather,
    served_model,
    text_lines,
)


class Script(BaseHTTPRequestHandler):
    status: ClassVar[int] = 200
    body: ClassVar[bytes] = b""
    length: ClassVar[str | None] = None
    seen: ClassVar[list[tuple[str, dict, str]]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        request = json.loads(self.rfile.read(length))
        Script.seen.append(
            (self.path, request, self.headers.get("Authorization") or "")
        )
        self.send_response(Script.status)
        if Script.length is not None:
            self.send_header("Content-Length", Script.length)
        self.end_headers()
        self.wfile.write(Script.body)

    def log_message(self, *args: object) -> None:
        del args


@pytest.fixture
def url() -> Iterator[str]:
    Script.seen.clear()
    server = HTTPServer(("127.0.0.1", 0), Script)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_pieces_are_shown_and_put_together(url: str) -> None:
    Script.status = 200
    Script.body = (
        b'data: {"choices":[{"text":"a"}]}\n\n: ping\n\n'
        b'data: {"choices":[{"text":"b","finish_reason":"length"}],'
        b'"p2pmoe":{"trips":3}}\n\ndata: [DONE]\n\n'
    )
    shown: list[str] = []
    answer = complete(url, {"prompt": "x"}, key="secret", show=shown.append)
    assert shown == ["a", "b"]
    assert answer.text == "ab"
    assert answer.finish_reason == "length"
    assert answer.extension == {"trips": 3}
    path, request, authorization = Script.seen[0]
    assert path == "/v1/completions"
    assert request["stream"] is True
    assert authorization == "Bearer secret"


def test_chat_goes_to_its_own_path(url: str) -> None:
    Script.status = 200
    Script.body = b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\ndata: [DONE]\n\n'
    assert complete_chat(url, {"messages": []}, show=lambda _: None).text == "hi"
    assert Script.seen[0][0] == "/v1/chat/completions"


def test_a_refusal_is_told_in_the_servers_words(url: str) -> None:
    Script.status = 400
    Script.body = b'{"error":{"message":"prompt too long"}}'
    with pytest.raises(ApiError, match=r"refused \(400\): prompt too long"):
        complete(url, {}, show=lambda _: None)


def test_a_backbone_that_is_not_ready_says_what_to_wait_for(url: str) -> None:
    Script.status = 503
    Script.body = b'{"error":{"message":"not ready: covering 3%","code":"not_ready"}}'
    with pytest.raises(ApiError, match="covering 3%") as caught:
        complete(url, {}, show=lambda _: None)
    assert "says that it is ready" in caught.value.advice
    Script.body = b'{"error":"odd"}'
    with pytest.raises(ApiError, match=r"refused \(503\)"):
        complete(url, {}, show=lambda _: None)


def test_a_model_that_cannot_chat_says_what_it_can(url: str) -> None:
    Script.status = 400
    Script.body = b'{"error":{"message":"no template","code":"no_chat_template"}}'
    with pytest.raises(ApiError, match="no template") as caught:
        complete_chat(url, {}, show=lambda _: None)
    assert "p2pmoe run" in caught.value.advice
    Script.body = b'{"error":{"message":"odd","code":[]}}'
    with pytest.raises(ApiError, match="odd") as caught:
        complete_chat(url, {}, show=lambda _: None)
    assert caught.value.advice == ""


def test_b23_a_stream_without_an_end_is_a_failure() -> None:
    lines = ['data: {"choices":[{"text":"half"}]}']
    with pytest.raises(ApiError, match="stopped before its end"):
        gather(lines, lambda _: None)


def test_b23_an_error_frame_is_a_failure() -> None:
    lines = ['data: {"error":{"type":"upstream_lost","message":"no holder"}}']
    with pytest.raises(ApiError, match="no holder"):
        gather(lines, lambda _: None)


def test_nobody_listening_says_what_to_do() -> None:
    with pytest.raises(ApiError) as caught:
        complete("http://127.0.0.1:1", {}, show=lambda _: None)
    line = "no backbone answers at http://127.0.0.1:1: connection refused"
    assert str(caught.value) == line
    assert "p2pmoe serve" in caught.value.advice


def test_an_address_without_a_scheme_will_do(url: str) -> None:
    Script.status = 200
    Script.body = b'data: {"choices":[{"text":"a"}]}\n\ndata: [DONE]\n\n'
    address = url.removeprefix("http://")
    assert complete(address, {}, show=lambda _: None).text == "a"


@pytest.mark.parametrize("ending", ["/", "/v1", "/v1/"])
def test_the_address_that_serve_prints_will_do(url: str, ending: str) -> None:
    Script.status = 200
    Script.body = b'data: {"choices":[{"text":"a"}]}\n\ndata: [DONE]\n\n'
    assert complete(url + ending, {}, show=lambda _: None).text == "a"
    assert Script.seen[-1][0] == "/v1/completions"


@pytest.mark.parametrize("text", ["http://", "http://a b/", "ftp://127.0.0.1", ""])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(ApiError, match="no backbone answers"):
        complete(text, {}, show=lambda _: None)


def test_a_backbone_that_dies_while_it_answers(url: str) -> None:
    Script.status = 200
    Script.body = b"1f\r\ncut off"
    Script.length = "100"
    shown: list[str] = []
    try:
        with pytest.raises(ApiError, match="stopped before its end: the backbone or"):
            complete(url, {}, show=shown.append)
    finally:
        Script.length = None


def test_chunks_are_watched_before_their_text_is_shown() -> None:
    lines = [
        'data: {"choices":[{"text":"a"}],"p2pmoe":{"steps":[1]}}',
        'data: {"choices":[{"text":"","finish_reason":"stop"}]}',
    ]
    seen: list[object] = []
    gather(lines, seen.append, lambda chunk: seen.append(chunk.extension))
    assert seen == [{"steps": [1]}, "a", None]


def test_fields_of_the_wrong_kind_are_as_if_they_were_not_there() -> None:
    lines = [
        'data: {"choices":[{"text":5,"finish_reason":3}],"usage":[],"p2pmoe":"x"}',
        "data: [DONE]",
    ]
    answer = gather(lines, lambda _: None)
    assert answer.text == ""
    assert answer.finish_reason is None
    assert answer.usage == {}
    assert answer.extension == {}


def test_a_text_that_is_no_text_is_told(url: str) -> None:
    with pytest.raises(ApiError, match="not UTF-8") as caught:
        complete(url, {"prompt": "\udcff"}, show=lambda _: None)
    assert caught.value.exit_code == 2


class Card(Script):
    def do_GET(self) -> None:
        self.send_response(Script.status)
        self.end_headers()
        self.wfile.write(Script.body)


@pytest.fixture
def cards() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Card)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_model_that_is_served_has_a_card(cards: str) -> None:
    Script.status, Script.body = 200, b'{"data":[{"id":"pocket","p2pmoe":{}}]}'
    assert served_model(cards) == {"id": "pocket", "p2pmoe": {}}
    Script.body = b'{"data":["odd"]}'
    assert served_model(cards) == {}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"data":[]}', b"[" * 100_000, b" " * (1 << 20) + b"{}"]
)
def test_a_list_of_models_that_is_none_is_told(cards: str, body: bytes) -> None:
    Script.status, Script.body = 200, body
    with pytest.raises(ApiError, match="list of models"):
        served_model(cards)


@given(st.text("ab\u00e9\r\n"), st.lists(st.integers(0, 40)))
def test_lines_are_the_same_however_they_are_cut(text: str, cuts: list[int]) -> None:
    raw = text.encode()
    places = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    pieces = [raw[a:b] for a, b in pairwise(places)]
    expected = [line.removesuffix("\r") for line in text.split("\n")]
    found = list(text_lines(pieces))
    assert found == expected[: len(found)]
    assert all(not line for line in expected[len(found) :])


def test_a_line_without_an_end_takes_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(completions, "MAX_LINE_BYTES", 100)
    with pytest.raises(ApiError, match="over 100 bytes"):
        list(text_lines([b"x" * 60, b"x" * 60]))
