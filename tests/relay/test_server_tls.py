"""Renewal of the server's certificate: whole or not at all, said once."""

import logging
import os
import ssl
from pathlib import Path

import pytest
import trio
import trio.testing

from relay.certificates import read_certificate
from relay.errors import CertificateError
from relay.server_tls import ServerTls
from relay.tls import SelfSigned, TlsFiles, pinning_context
from tests.relay.test_tls import write_files
from tests.support.relays import RELAY, joined, key, plain_config, running_relay
from tests.support.trio_test import trio_test


def place(folder: Path, files: TlsFiles, owner, *, age_s: int) -> None:
    """Put another certificate in place of the files, as a renewal by renaming does."""
    (folder / "next").mkdir(exist_ok=True)
    renewed = write_files(folder / "next", owner=owner, certified=owner)
    for source, target in (
        (renewed.key, files.key),
        (renewed.certificate, files.certificate),
    ):
        os.utime(source, (age_s, age_s))
        source.replace(target)


def shown_key(context: ssl.SSLContext) -> bytes | None:
    """The key of the certificate that a client is shown."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    client = pinning_context().wrap_bio(outgoing, incoming)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    facts = read_certificate(client.getpeercert(binary_form=True))
    return None if facts is None else facts.key


def test_new_handshakes_get_the_new_certificate(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    tls = ServerTls(files, RELAY)
    before = tls.context
    assert not tls.renew()
    assert tls.context is before
    place(tmp_path, files, key(1), age_s=1)
    assert tls.renew()
    assert shown_key(tls.context) == key(1).peer_id
    assert shown_key(before) == RELAY.peer_id
    assert not tls.renew()


@pytest.mark.parametrize("harm", ["mismatch", "nonsense", "gone"])
def test_files_that_do_not_fit_change_nothing_until_they_do(
    harm: str, tmp_path: Path
) -> None:
    files = write_files(tmp_path)
    tls = ServerTls(files, RELAY)
    certificate = files.certificate.read_bytes()
    if harm == "mismatch":
        write_files(tmp_path, owner=key(1), certified=RELAY)
    elif harm == "nonsense":
        files.certificate.write_text("half a certif")
    else:
        files.certificate.unlink()
    for _ in range(2):
        with pytest.raises(CertificateError):
            tls.renew()
        assert shown_key(tls.context) == RELAY.peer_id
    files.certificate.write_bytes(certificate)
    place(tmp_path, files, key(2), age_s=2)
    assert tls.renew()
    assert shown_key(tls.context) == key(2).peer_id


def test_a_link_that_is_turned_is_a_renewal(tmp_path: Path) -> None:
    """As certbot keeps them: live/ holds links into archive/."""
    for name, owner in (("1", RELAY), ("2", key(1))):
        (tmp_path / name).mkdir()
        write_files(tmp_path / name, owner=owner, certified=owner)
    live = tmp_path / "live"
    live.symlink_to("1")
    files = TlsFiles(certificate=live / "cert.pem", key=live / "key.pem")
    tls = ServerTls(files, RELAY)
    (tmp_path / "next").symlink_to("2")
    (tmp_path / "next").rename(live)
    assert tls.renew()
    assert shown_key(tls.context) == key(1).peer_id


def test_a_certificate_of_our_own_never_changes() -> None:
    tls = ServerTls(SelfSigned(), RELAY)
    assert not tls.renew()


@trio_test(autojump=True)
async def test_the_loop_says_a_failure_once_and_a_renewal(tmp_path, caplog) -> None:
    files = write_files(tmp_path)
    tls = ServerTls(files, RELAY)
    caplog.set_level(logging.INFO, logger="p2pmoe.relay")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tls.keep_renewed)
        files.key.write_text("nonsense")
        await trio.sleep(35)
        assert [r.message.partition(":")[0] for r in caplog.records] == [
            "the certificate was not renewed"
        ]
        place(tmp_path, files, key(3), age_s=3)
        await trio.sleep(15)
        assert caplog.records[-1].message == "the certificate was renewed"
        assert shown_key(tls.context) == key(3).peer_id
        nursery.cancel_scope.cancel()


@trio_test
async def test_open_connections_stay_while_new_ones_get_the_new_certificate(
    tmp_path: Path,
) -> None:
    files = write_files(tmp_path)
    config = plain_config(tls=files, behind_front=False)
    async with running_relay(config) as relay:
        async with joined(relay, key(1)) as first:
            place(tmp_path, files, key(9), age_s=9)
            assert relay.tls is not None
            assert relay.tls.renew()
            stream = await trio.open_ssl_over_tcp_stream(
                "127.0.0.1", relay.port, ssl_context=pinning_context()
            )
            await stream.do_handshake()
            facts = read_certificate(stream.getpeercert(binary_form=True))
            assert facts is not None
            assert facts.key == key(9).peer_id
            await trio.aclose_forcefully(stream)
            first.send(key(1).peer_id, b"to myself", nack=False)
            event = await anext(first.events())
            assert event.payload == b"to myself"
