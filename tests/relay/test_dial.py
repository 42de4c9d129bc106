"""Reaching a relay: addresses, certificates, and no plaintext."""

import contextlib
import datetime as dt
import errno
import socket
import ssl

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from relay import ClientSettings
from relay.dial import CA_VARIABLE, dial
from relay.endpoint import Endpoint, parse_endpoint
from relay.errors import (
    CertificateError,
    CertificateRefused,
    PlaintextRefused,
    ProxyRefused,
    ProxySettingError,
    RelayUnreachable,
    WrongRelayId,
)
from relay.streams import TcpStream
from relay.tls import TlsFiles, self_signed_certificate, server_context
from relay.tls_stream import TlsStream
from tests.relay.test_tls import write_files
from tests.support.proxies import FakeProxy, running_proxy
from tests.support.relays import (
    RELAY,
    joined,
    key,
    plain_config,
    running_relay,
    tls_config,
)
from tests.support.trio_test import trio_test

STRICT = ClientSettings()


@pytest.fixture(autouse=True)
def no_proxy_here(monkeypatch) -> None:
    """What this machine's environment says of proxies and authorities is not ours."""
    for name in ("HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", CA_VARIABLE):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@trio_test
async def test_a_self_signed_relay_is_known_by_its_id() -> None:
    async with running_relay(tls_config()) as relay:
        endpoint = relay.endpoint("127.0.0.1")
        dialled = await dial(endpoint)
        assert isinstance(dialled.stream, TlsStream)
        assert dialled.stream.version() == "TLSv1.3"
        dialled.transport.close()
        async with joined(endpoint, key(1), settings=STRICT) as connection:
            assert connection.welcome.relay_id == RELAY.peer_id


@trio_test
async def test_wrong_relay_id() -> None:
    async with running_relay(tls_config()) as relay:
        other = Endpoint(relay.endpoint("127.0.0.1").url, key(9).peer_id)
        with pytest.raises(WrongRelayId) as caught:
            await dial(other)
    assert RELAY.peer_id.hex()[:8] in str(caught.value)
    assert caught.value.advice
    assert caught.value.exit_code == 2


@trio_test
async def test_without_an_id_an_authority_must_vouch(tmp_path) -> None:
    async with running_relay(tls_config()) as relay:
        url = relay.endpoint("localhost").url
        with pytest.raises(CertificateRefused, match=r"self.signed") as caught:
            await dial(Endpoint(url))
        assert "invite" in caught.value.advice


@trio_test
async def test_an_authoritys_file(tmp_path) -> None:
    """The test certificate is its own authority; then the id is proven by the relay."""
    files = authority_files(tmp_path)
    config = tls_config_with(files)
    async with running_relay(config) as relay:
        url = relay.endpoint("localhost").url
        endpoint = Endpoint(url, RELAY.peer_id, files.certificate)
        async with joined(endpoint, key(1), settings=STRICT) as connection:
            assert connection.welcome.relay_id == RELAY.peer_id
        with pytest.raises(WrongRelayId):
            async with joined(
                Endpoint(url, key(9).peer_id, files.certificate),
                key(1),
                settings=STRICT,
            ):
                pass


@trio_test
async def test_a_front_with_a_foreign_certificate_is_not_the_pinned_relay(
    tmp_path,
) -> None:
    files = authority_files(tmp_path)
    async with running_relay(tls_config_with(files)) as relay:
        with pytest.raises(WrongRelayId, match="neither"):
            await dial(relay.endpoint("localhost"))


def authority_files(
    folder,
    *,
    host: str = "localhost",
    not_before: dt.datetime = dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    not_after: dt.datetime = dt.datetime(2090, 1, 1, tzinfo=dt.UTC),
) -> TlsFiles:
    """A P-256 certificate for localhost, as a front would have, that signs itself."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "front")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .sign(private, hashes.SHA256())
    )
    files = TlsFiles(certificate=folder / "front.pem", key=folder / "front.key")
    pem = serialization.Encoding.PEM
    files.certificate.write_bytes(certificate.public_bytes(pem))
    files.key.write_bytes(
        private.private_bytes(
            pem,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def tls_config_with(files: TlsFiles):
    return plain_config(tls=files, behind_front=False, host=None)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("ws://127.0.0.1:1/relay", False),
        ("ws://relay.example.org:1/relay", True),
        ("ws://192.0.2.1:1/relay", True),
    ],
)
def test_plaintext_is_refused(url: str, allowed: bool) -> None:
    async def main() -> None:
        with pytest.raises(PlaintextRefused) as caught:
            await dial(parse_endpoint(url), allow_plaintext=allowed)
        assert "wss://" in caught.value.advice

    trio.run(main)


@trio_test
async def test_unreachable_relay() -> None:
    with pytest.raises(RelayUnreachable, match="connection refused") as caught:
        await dial(parse_endpoint("wss://127.0.0.1:1/relay"))
    assert "127.0.0.1:1" in str(caught.value)
    assert caught.value.advice


@pytest.mark.parametrize(
    "error",
    [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")],
)
@trio_test
async def test_an_unknown_host(error: Exception, monkeypatch) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("relay.dial.trio.open_tcp_stream", unknown)
    with pytest.raises(RelayUnreachable, match="host name is not known"):
        await dial(parse_endpoint("wss://nowhere.invalid/relay"))


@trio_test
async def test_plain_http_at_the_port() -> None:
    async with running_relay(plain_config()) as relay:
        endpoint = Endpoint(f"wss://127.0.0.1:{relay.port}/relay", RELAY.peer_id)
        with pytest.raises(RelayUnreachable, match="no TLS") as caught:
            await dial(endpoint)
        assert "port" in caught.value.advice


def test_the_self_signed_pem_is_what_tls_loads(tmp_path) -> None:
    files = write_files(tmp_path)
    assert files.certificate.read_bytes() == self_signed_certificate(
        RELAY, ("localhost",)
    )
    assert ssl.PEM_cert_to_DER_cert(files.certificate.read_text())


# ---- through a proxy

FAR = "wss://relay.example.org/relay"


def through(proxy: FakeProxy, **changes: str) -> ClientSettings:
    return ClientSettings(environment={"HTTPS_PROXY": proxy.url} | changes)


@trio_test
async def test_b26_a_relay_behind_a_proxy_is_reached_and_proven() -> None:
    async with running_relay(tls_config()) as relay:
        async with running_proxy(target=("127.0.0.1", relay.port)) as proxy:
            endpoint = Endpoint(FAR, RELAY.peer_id)
            async with joined(endpoint, key(1), settings=through(proxy)) as a:
                assert a.welcome.relay_id == RELAY.peer_id
                assert a.route.proxy == f"127.0.0.1:{proxy.port}"
                assert a.route.certificate.key == RELAY.peer_id
                a.send(key(1).peer_id, b"x" * 60_000)
                assert len((await anext(a.events())).payload) == 60_000
    assert proxy.heads[0].startswith("CONNECT relay.example.org:443 HTTP/1.1\r\n")
    assert "Authorization" not in proxy.heads[0]


@trio_test
async def test_b26_a_proxy_reached_by_tls_with_a_password(tmp_path) -> None:
    files = authority_files(tmp_path)
    context = server_context(files, RELAY)

    def wrap(stream: trio.SocketStream) -> trio.SSLStream:
        return trio.SSLStream(stream, context, server_side=True)

    async with running_relay(tls_config()) as relay:
        target = ("127.0.0.1", relay.port)
        async with running_proxy(wrap=wrap, target=target) as proxy:
            url = f"https://ann:secret@localhost:{proxy.port}"
            settings = ClientSettings(environment={"ALL_PROXY": url})
            endpoint = Endpoint(FAR, RELAY.peer_id, files.certificate)
            async with joined(endpoint, key(1), settings=settings) as a:
                assert a.welcome.relay_id == RELAY.peer_id
            with pytest.raises(ProxyRefused, match="self-signed") as caught:
                await dial(
                    Endpoint(FAR, RELAY.peer_id), environment=settings.environment
                )
            assert "--ca" in caught.value.advice
    assert "Proxy-Authorization: Basic YW5uOnNlY3JldA==" in proxy.heads[0]


@trio_test
async def test_b26_the_proxys_refusals() -> None:
    who = b"HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic realm=x\r\n\r\n"
    async with running_proxy(answer=who) as proxy:
        with pytest.raises(ProxyRefused, match="wants a user") as caught:
            await dial(Endpoint(FAR), environment={"HTTPS_PROXY": proxy.url})
        assert caught.value.status == 407
        proxy.answer = b"HTTP/1.1 403 No\r\n\r\n"
        with pytest.raises(ProxyRefused, match="forbids"):
            await dial(Endpoint(FAR), environment={"HTTPS_PROXY": proxy.url})
    with pytest.raises(ProxyRefused, match="cannot be reached: connection refused"):
        await dial(Endpoint(FAR), environment={"HTTPS_PROXY": "http://127.0.0.1:1"})
    with pytest.raises(ProxySettingError):
        await dial(Endpoint(FAR), environment={"HTTPS_PROXY": "socks5://x:1"})


@trio_test
async def test_what_no_proxy_names_is_dialled_directly(monkeypatch) -> None:
    called = []

    async def refuse(host: str, port: int, **_: object) -> None:
        called.append((host, port))
        raise OSError(errno.ECONNREFUSED, "refused")

    monkeypatch.setattr("relay.dial.trio.open_tcp_stream", refuse)
    environment = {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": ".example.org"}
    with pytest.raises(RelayUnreachable):
        await dial(Endpoint(FAR), environment=environment)
    with pytest.raises(ProxyRefused):
        await dial(Endpoint(FAR), environment=environment | {"NO_PROXY": ""})
    assert called == [("relay.example.org", 443), ("proxy", 1)]


@trio_test
async def test_b26_a_proxy_that_inspects_tls_is_named_by_its_issuer(tmp_path) -> None:
    """What answers has a certificate of its own authority; with it, the id holds."""
    files = authority_files(tmp_path)
    async with running_relay(tls_config_with(files)) as relay:
        url = relay.endpoint("localhost").url
        with pytest.raises(WrongRelayId, match="issued by 'front'") as caught:
            await dial(Endpoint(url, RELAY.peer_id))
        assert "inspects TLS" in caught.value.advice
        assert "P2PMOE_CA_FILE" in caught.value.advice
        with pytest.raises(CertificateRefused) as caught:
            await dial(Endpoint(url))
        assert "--ca" in caught.value.advice
        endpoint = Endpoint(url, RELAY.peer_id, files.certificate)
        async with joined(endpoint, key(1), settings=STRICT) as a:
            assert a.route.certificate.issuer == "front"


@trio_test
async def test_b26_a_relay_joined_through_a_proxy_that_inspects_tls(tmp_path) -> None:
    """Two TLS connections, one id: the relay proves it through the proxy."""
    files = authority_files(tmp_path, host="relay.example.org")
    inspect = server_context(files, RELAY)
    async with running_relay(tls_config()) as relay:
        target = ("127.0.0.1", relay.port)
        async with running_proxy(target=target, inspect=inspect) as proxy:
            endpoint = Endpoint(FAR, RELAY.peer_id)
            with pytest.raises(WrongRelayId, match="issued by 'front'"):
                async with joined(endpoint, key(1), settings=through(proxy)):
                    pass
            known = through(proxy, **{CA_VARIABLE: str(files.certificate)})
            async with joined(endpoint, key(1), settings=known) as a:
                assert a.route.certificate.issuer == "front"
                a.send(key(1).peer_id, b"sealed")
                assert (await anext(a.events())).payload == b"sealed"
            other = Endpoint(FAR, key(9).peer_id)
            with pytest.raises(WrongRelayId, match="is relay"):
                async with joined(other, key(1), settings=known):
                    pass


@trio_test
async def test_a_front_that_is_known_costs_one_handshake(tmp_path, monkeypatch) -> None:
    n_dials = 0
    connect = trio.open_tcp_stream

    async def counted(*args: object, **options: object) -> trio.SocketStream:
        nonlocal n_dials
        n_dials += 1
        return await connect(*args, **options)

    monkeypatch.setattr("relay.dial.trio.open_tcp_stream", counted)
    files = authority_files(tmp_path)
    fronts: set[str] = set()
    counts = []
    async with running_relay(tls_config_with(files)) as front:
        port = front.port
        url = f"wss://localhost:{port}/relay"
        endpoint = Endpoint(url, RELAY.peer_id, files.certificate)
        for _ in range(2):
            dialled = await dial(endpoint, fronts=fronts)
            dialled.transport.close()
            counts.append(n_dials)
    assert fronts == {url}
    assert counts == [2, 3]
    # The relay has a certificate of its own now: the memory was wrong, and is gone.
    async with running_relay(tls_config(host=None, port=port)):
        dialled = await dial(endpoint, fronts=fronts)
        assert dialled.route.certificate.key == RELAY.peer_id
        dialled.transport.close()
    assert fronts == set()


@trio_test
async def test_an_authoritys_file_that_the_environment_names(tmp_path) -> None:
    files = authority_files(tmp_path)
    async with running_relay(tls_config_with(files)) as relay:
        endpoint = relay.endpoint("localhost")
        named = {CA_VARIABLE: str(files.certificate)}
        dialled = await dial(endpoint, environment=named)
        assert dialled.route.certificate.issuer == "front"
        dialled.transport.close()
        with pytest.raises(WrongRelayId):
            await dial(endpoint, environment={CA_VARIABLE: ""})
        with pytest.raises(CertificateError, match=r"none\.pem"):
            await dial(endpoint, environment={CA_VARIABLE: "none.pem"})


@trio_test
async def test_an_authoritys_file_beside_a_relays_own_certificate(tmp_path) -> None:
    """One file for all relays of a network: those with their own key need none."""
    files = authority_files(tmp_path)
    async with running_relay(tls_config()) as relay:
        url = relay.endpoint("localhost").url
        endpoint = Endpoint(url, RELAY.peer_id, files.certificate)
        async with joined(endpoint, key(1), settings=STRICT) as a:
            assert a.route.tls_version == "TLSv1.3"


@pytest.mark.parametrize(
    ("changes", "reason", "advice"),
    [
        ({"not_after": dt.datetime(2021, 1, 1, tzinfo=dt.UTC)}, "expired", "renew"),
        ({"not_before": dt.datetime(2089, 1, 1, tzinfo=dt.UTC)}, "not yet", "clock"),
        ({"host": "other.example"}, "mismatch", "host name"),
    ],
)
def test_certificates_that_are_not_good(tmp_path, changes, reason, advice) -> None:
    async def main() -> None:
        files = authority_files(tmp_path, **changes)
        async with running_relay(tls_config_with(files)) as relay:
            url = relay.endpoint("localhost").url
            with pytest.raises(CertificateRefused, match=reason) as caught:
                await dial(Endpoint(url, None, files.certificate))
            assert advice in caught.value.advice

    trio.run(main)


async def serve_tls(context: ssl.SSLContext, task_status: trio.TaskStatus[int]) -> None:
    async def handle(stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await trio.SSLStream(stream, context, server_side=True).do_handshake()

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    task_status.started(listener.socket.getsockname()[1])
    await trio.serve_listeners(handle, [listener])


@trio_test
async def test_b26_alpn_offers_http_1_1_alone(tmp_path) -> None:
    """A server of h2 and http/1.1 takes http/1.1; one of h2 alone is named."""
    context = server_context(authority_files(tmp_path), RELAY)
    chosen = []
    async with trio.open_nursery() as nursery:
        context.set_alpn_protocols(["h2", "http/1.1"])
        port = await nursery.start(serve_tls, context)
        endpoint = Endpoint(
            f"wss://localhost:{port}/relay", None, tmp_path / "front.pem"
        )
        dialled = await dial(endpoint)
        chosen.append(dialled.stream.selected_alpn_protocol())
        dialled.transport.close()
        nursery.cancel_scope.cancel()
    assert chosen == ["http/1.1"]


# ---- IPv6 that fails fast


class DeadIpv6(trio.abc.SocketFactory, trio.abc.HostnameResolver):
    """Every name has two IPv6 addresses that swallow all, and 127.0.0.1."""

    def socket(self, family=0, type=0, proto=0):  # noqa: A002 - as trio names it
        made = socket.socket(socket.AF_INET, type, proto)
        if family == socket.AF_INET6:
            return _Swallowing(made)
        return trio.socket.from_stdlib_socket(made)

    async def getaddrinfo(self, host, port, *_: object, **__: object):
        tcp = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [
            (socket.AF_INET6, *tcp, ("2001:db8::1", port, 0, 0)),
            (socket.AF_INET6, *tcp, ("2001:db8::2", port, 0, 0)),
            (socket.AF_INET, *tcp, ("127.0.0.1", port)),
        ]

    async def getnameinfo(self, *_: object):
        raise NotImplementedError


class _Swallowing:
    """A socket whose connect never ends."""

    def __init__(self, made: socket.socket) -> None:
        self.close = made.close
        self.setsockopt = made.setsockopt

    async def connect(self, _address: object) -> None:
        await trio.sleep_forever()


@trio_test(autojump=True)
async def test_b26_a_dead_ipv6_route_costs_a_quarter_of_a_second() -> None:
    async with running_relay(tls_config()) as relay:
        dead = DeadIpv6()
        trio.socket.set_custom_hostname_resolver(dead)
        trio.socket.set_custom_socket_factory(dead)
        began = trio.current_time()
        endpoint = Endpoint(f"wss://relay.test:{relay.port}/relay", RELAY.peer_id)
        async with joined(endpoint, key(1), settings=STRICT) as a:
            assert a.route.remote == f"127.0.0.1:{relay.port}"
            assert trio.current_time() - began < 1


@trio_test(autojump=True)
async def test_ipv6_that_opens_and_swallows_costs_three_seconds(monkeypatch) -> None:
    """Small packets pass, large ones do not: TCP is up, TLS never is."""

    class Ipv6Stream(TcpStream):
        remote_address = "[2001:db8::1]:443"

    silent, _other = socket.socketpair()
    opened = []

    async def connect(host: str, port: int, local: str | None) -> TcpStream:
        opened.append(local)
        if local is None:
            return Ipv6Stream(silent)
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        return TcpStream(socket.socket(fileno=stream.socket.detach()))

    monkeypatch.setattr("relay.dial._connect", connect)
    async with running_relay(tls_config()) as relay:
        endpoint = Endpoint(f"wss://relay.test:{relay.port}/relay", RELAY.peer_id)
        dialled = await dial(endpoint)
        assert trio.current_time() == pytest.approx(3, abs=0.1)
        dialled.transport.close()
    assert opened == [None, "0.0.0.0"]  # noqa: S104 - our end of a connection
    assert silent.fileno() < 0
    _other.close()


@trio_test(autojump=True)
async def test_ipv6_alone_that_swallows(monkeypatch) -> None:
    class Ipv6Stream(TcpStream):
        remote_address = "[2001:db8::1]:443"

    silent, other = socket.socketpair()

    async def connect(host: str, port: int, local: str | None) -> TcpStream:
        if local is None:
            return Ipv6Stream(silent)
        raise OSError("local_address is incompatible")

    monkeypatch.setattr("relay.dial._connect", connect)
    with pytest.raises(RelayUnreachable, match="within 3 s, none by IPv4"):
        await dial(Endpoint("wss://relay.test/relay", RELAY.peer_id))
    other.close()
