"""A log's files over HTTP: bounded, not redirected, every failure one line."""

import gzip

import httpx
import pytest

from ledger.errors import LogUnavailable, NotFound
from p2pmoe.errors import ConfigurationError
from p2pmoe.ledgerd.log_source import FolderLog, HttpLog, open_log


def http_log(answer, address="https://log.example/moe/", clock=None):
    client = httpx.Client(transport=httpx.MockTransport(answer))
    times = iter(clock) if clock else None
    return HttpLog(client, address, (lambda: next(times)) if times else lambda: 0.0)


def test_a_file_is_read_up_to_its_bound():
    asked = []

    def answer(request):
        asked.append(str(request.url))
        return httpx.Response(200, content=b"x" * 100)

    log = http_log(answer)
    assert log.fetch("checkpoint", 100) == b"x" * 100
    assert log.fetch("tile/0/000", 10) == b"x" * 11
    assert asked == [
        "https://log.example/moe/checkpoint",
        "https://log.example/moe/tile/0/000",
    ]


def test_an_endless_file_is_left():
    def answer(_):
        def endless():
            while True:
                yield b"x" * 1000

        return httpx.Response(200, content=endless())

    assert len(http_log(answer).fetch("checkpoint", 5000)) == 5001


def test_a_server_that_dawdles_is_left():
    def answer(_):
        return httpx.Response(200, content=iter([b"x"] * 50))

    log = http_log(answer, clock=[0.0, 1.0, 59.0, 61.0])
    with pytest.raises(LogUnavailable, match="takes more than"):
        log.fetch("checkpoint", 100)


@pytest.mark.parametrize("status", [404, 410])
def test_what_is_not_there(status):
    with pytest.raises(NotFound, match="checkpoint is not there"):
        http_log(lambda _: httpx.Response(status)).fetch("checkpoint", 10)


def test_other_answers():
    def redirect(_):
        return httpx.Response(302, headers={"location": "https://other.example/"})

    def packed(_):
        headers = {"content-encoding": "gzip"}
        return httpx.Response(200, headers=headers, content=gzip.compress(b"x" * 9999))

    def broken(_):
        raise httpx.ConnectError("no route to host\nsecond line")

    def silent(_):
        raise httpx.ReadTimeout("")

    for answer, words in (
        (redirect, "status 302"),
        (packed, "gzip"),
        (broken, "no route to host"),
        (silent, "ReadTimeout"),
    ):
        with pytest.raises(LogUnavailable, match=words) as caught:
            http_log(answer).fetch("checkpoint", 10)
        assert "\n" not in str(caught.value)


def test_a_cosigned_note_is_handed_in():
    got = []

    def answer(request):
        got.append((request.method, request.url.path, request.url.query))
        return httpx.Response(200 if len(got) == 1 else 409)

    log = http_log(answer)
    assert log.hand_in(b"note") is True
    assert got == [("GET", "/moe/cosignature", b"note=bm90ZQ")]
    with pytest.raises(LogUnavailable, match="status 409"):
        log.hand_in(b"note")

    def broken(_):
        raise httpx.ConnectError("refused")

    with pytest.raises(LogUnavailable, match="refused"):
        http_log(broken).hand_in(b"note")


@pytest.mark.parametrize(
    "address",
    [
        "ftp://log.example/",
        "https://",
        "https://log.example/?x=1",
        "https://log.example/#x",
        "https://me:secret@log.example/",
        "https://[log.example/",
        "https://log.example:99999/",
        "file:///etc/passwd",
    ],
)
def test_addresses_that_cannot_be(address):
    with pytest.raises(ConfigurationError), open_log(address):
        pass


def test_a_folder(tmp_path):
    (tmp_path / "checkpoint").write_bytes(b"abc")
    with open_log(str(tmp_path)) as log:
        assert isinstance(log, FolderLog)
        assert log.fetch("checkpoint", 2) == b"abc"
        assert log.hand_in(b"note") is False
    with pytest.raises(ConfigurationError, match="no folder"), open_log("/no/such"):
        pass
    with open_log("https://log.example/") as log:
        assert isinstance(log, HttpLog)
