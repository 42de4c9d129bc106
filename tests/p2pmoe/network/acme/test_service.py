import datetime as dt
import logging
import socket
import ssl
import stat
from pathlib import Path

import pytest
import trio
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from p2pmoe.network.acme.client import new_key_pem
from p2pmoe.network.acme.errors import AcmeFailed
from p2pmoe.network.acme.service import AcmeCertificate, run_acme
from p2pmoe.network.acme.settings import AcmeSettings
from p2pmoe.network.folder import replace_file
from tests.support.acme_server import acme_server, issue_certificate
from tests.support.trio_test import trio_test

START = dt.datetime.now(dt.UTC).replace(microsecond=0)
DAY = dt.timedelta(days=1)


class WallClock:
    """A wall clock that is set."""

    def __init__(self, now: dt.datetime) -> None:
        self.now = now

    def monotonic(self) -> float:
        return 0.0

    def wall_us(self) -> int:
        return int(self.now.timestamp() * 1e6)


def certificate(folder: Path, clock: WallClock, **changes) -> AcmeCertificate:
    settings = {
        "domains": ("relay.example",),
        "server": "https://authority.example/directory",
        "host": "127.0.0.1",
        "port": 0,
    }
    kind = changes.pop("kind", AcmeCertificate)
    options = {name: changes.pop(name) for name in ("obtain",) if name in changes}
    return kind(
        settings=AcmeSettings(**(settings | changes)),
        folder=folder / "acme",
        clock=clock,
        lot=0.0,
        **options,
    )


class Refusing:
    """An authority that refuses the first `n` times, and gives `pems` then."""

    def __init__(self, n: int, *pems: bytes) -> None:
        self.n, self.pems, self.asked = n, list(pems), 0

    def __call__(self, *_: object) -> bytes:
        self.asked += 1
        if self.asked <= self.n:
            raise AcmeFailed("the authority refuses: not now")
        return self.pems.pop(0)


def pems(tmp_path: Path, *starts: dt.datetime) -> list[bytes]:
    made = []
    for start in starts:
        raw = new_key_pem()
        key = load_pem_private_key(raw, password=None)
        chain = issue_certificate(
            key, key.public_key(), ["relay.example"], start, 90 * DAY
        )
        made.append(raw + chain)
    return made


@trio_test
async def test_the_first_start_fetches_one_over_http_and_the_next_has_it(
    tmp_path: Path,
) -> None:
    with acme_server(tmp_path, now=START) as authority:
        authority.validation_port = free_port()
        mine = certificate(
            tmp_path,
            WallClock(START),
            server=f"{authority.url}/directory",
            ca_file=authority.ca_file,
            port=authority.validation_port,
        )
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                files = await nursery.start(run_acme, mine)
                nursery.cancel_scope.cancel()
        assert authority.n_issued == 1
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        assert stat.S_IMODE(files.key.stat().st_mode) == 0o600
        names = [path.name for path in files.key.parent.iterdir()]
        assert sorted(names) == ["account.key", "certificate.pem"]
        assert mine.answers == {}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@trio_test
async def test_without_a_certificate_a_refusal_ends_it(tmp_path: Path) -> None:
    mine = certificate(tmp_path, WallClock(START), obtain=Refusing(1))
    with pytest.RaisesGroup(AcmeFailed, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            await nursery.start(run_acme, mine)


@trio_test
async def test_one_that_is_due_but_good_does_for_now(tmp_path, caplog) -> None:
    (held,) = pems(tmp_path, START)
    clock = WallClock(START)
    mine = certificate(tmp_path, clock, obtain=Refusing(0, held))
    await mine.fetch()
    clock.now = START + 80 * DAY
    mine.obtain = Refusing(1)
    async with trio.open_nursery() as nursery:
        files = await nursery.start(run_acme, mine)
        nursery.cancel_scope.cancel()
    assert files.key.read_bytes() == held
    assert "was not renewed: the authority refuses" in caplog.text
    clock.now = START + 91 * DAY
    mine.obtain = Refusing(1)
    with pytest.RaisesGroup(AcmeFailed, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            await nursery.start(run_acme, mine)


@trio_test
async def test_another_keys_certificate_is_not_taken(tmp_path: Path) -> None:
    first, second = pems(tmp_path, START, START)
    mixed = first[: first.index(b"-----BEGIN CERT")]
    mixed += second[second.index(b"-----BEGIN CERT") :]
    mine = certificate(tmp_path, WallClock(START), obtain=Refusing(0, mixed))
    with pytest.raises(AcmeFailed, match="another key"):
        await mine.fetch()
    assert not mine.file.exists()


class Scripted(AcmeCertificate):
    """Fetches without a thread, so that a clock can jump."""

    async def fetch(self) -> None:
        replace_file(self.file, self.obtain(self.settings, b"", lambda *_: None))


@trio_test(autojump=True)
async def test_it_is_renewed_when_due_and_tried_again_after_failures(
    tmp_path: Path, caplog
) -> None:
    caplog.set_level(logging.INFO)
    first, second = pems(tmp_path, START, START + 61 * DAY)
    clock = WallClock(START)
    authority = Refusing(2, second)
    mine = certificate(tmp_path, clock, kind=Scripted, obtain=authority)
    mine.file.parent.mkdir(parents=True)
    mine.file.write_bytes(first)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mine.keep)
        clock.now = START + 59 * DAY
        await trio.sleep(5 * 3600 + 1)
        assert authority.asked == 0
        clock.now = START + 61 * DAY
        await trio.sleep(3600)
        assert authority.asked == 1
        await trio.sleep(500)  # then 960 s
        assert authority.asked == 2
        await trio.sleep(1000)
        assert authority.asked == 3
        assert mine.file.read_bytes() == second
        await trio.sleep(100 * 3600)
        assert authority.asked == 3
        nursery.cancel_scope.cancel()
    assert caplog.text.count("was not renewed") == 2
    assert caplog.text.count("a new certificate for relay.example") == 1
