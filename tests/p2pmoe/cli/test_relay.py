import signal
import time
from pathlib import Path

import pytest

from tests.support.command_line import Outcome, assert_one_error, run_all
from tests.support.operator_processes import OperatorProcess, run_operator_command

LOOPBACK = ("--self-signed", "--listen", "127.0.0.1:0")


@pytest.fixture
def relay(tmp_path: Path):
    process = OperatorProcess(
        tmp_path, "relay", *LOOPBACK, "--data", str(tmp_path / "net")
    )
    yield process
    process.kill()


def test_it_tells_people_how_to_join_and_ends_on_sigterm(relay, tmp_path) -> None:
    invite = str(tmp_path / "net" / "invite.json")
    assert relay.report["invite"] == invite
    assert relay.report["listen"][0] == "127.0.0.1"
    assert len(bytes.fromhex(relay.report["relay_id"])) == 32
    text = relay.log.read_text()
    assert f"p2pmoe serve MODEL --invite {invite}" in text
    assert f"p2pmoe contribute --invite {invite}" in text
    assert f"p2pmoe ledger statement --data {tmp_path / 'net'}" in text
    assert "no backbone can pay a worker" in text
    assert "start it with --opening-credit 100" in text
    assert relay.stop(signal.SIGTERM) == 0
    assert "Traceback" not in relay.log.read_text()


def test_a_relay_host_needs_no_numpy_and_no_database(tmp_path: Path) -> None:
    process = OperatorProcess(
        tmp_path,
        *("relay", *LOOPBACK, "--only", "--data", str(tmp_path / "net")),
        without=("numpy", "sqlalchemy", "sqlite3", "wasmtime", "gguf"),
    )
    try:
        status = Path(f"/proc/{process.process.pid}/status").read_text()
        resident_kib = int(status.partition("VmRSS:")[2].split()[0])
        assert resident_kib < 60_000, f"{resident_kib} KiB at start"
        assert "p2pmoe market --invite" in process.log.read_text()
    finally:
        process.kill()


def test_a_hangup_is_said_on_one_line_and_the_relay_goes_on(relay, tmp_path) -> None:
    (tmp_path / "net" / "revocations").write_bytes(b"broken")
    relay.process.send_signal(signal.SIGHUP)
    latest = time.monotonic() + 20
    while "nothing reloaded" not in relay.log.read_text():
        assert relay.process.poll() is None
        assert time.monotonic() < latest
        time.sleep(0.01)
    last = relay.log.read_text().strip().splitlines()[-1]
    assert "revocations: revocations of 6 bytes" in last
    assert "Traceback" not in relay.log.read_text()
    assert relay.stop(signal.SIGTERM) == 0


def test_an_open_relay_lends_credit_and_needs_no_invite(tmp_path) -> None:
    options = ("--open", "--opening-credit", "7", "--data", str(tmp_path / "net"))
    process = OperatorProcess(tmp_path, "relay", *LOOPBACK, *options)
    try:
        text = process.log.read_text()
        assert "each new backbone is lent 7 to pay" in text
        assert f"p2pmoe contribute {process.report['relay']}" in text
    finally:
        process.kill()


def test_an_interrupt_ends_with_130(relay) -> None:
    assert relay.stop(signal.SIGINT) == 130
    assert "Traceback" not in relay.log.read_text()


def test_two_processes_on_one_folder_or_port_are_refused(relay, tmp_path) -> None:
    host, port = relay.report["listen"]
    for folder, reason in (("net", "in use"), ("other", f"port {port}")):
        listen = f"{host}:{port}"
        shown = run_operator_command(
            *("relay", "--self-signed", "--listen", listen),
            *("--data", str(tmp_path / folder)),
        )
        assert_one_line(shown, reason)


def assert_one_line(shown, reason: str) -> None:
    assert shown.returncode == 2, shown.stderr
    assert shown.stdout == ""
    lines = shown.stderr.strip().splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1
    assert reason in errors[0]
    assert "Traceback" not in shown.stderr


WRONG: list[tuple[tuple[str, ...], str]] = [
    ((), "exactly one kind of TLS. Use --self-signed"),
    (("--self-signed", "--behind-front"), "exactly one kind of TLS"),
    (("--cert", "c.pem"), "--cert and --key belong together"),
    (("--cert", "absent.pem", "--key", "absent.pem"), "cannot read absent.pem"),
    (("--behind-front",), "Name it with --public-url"),
    (("--self-signed", "--listen", "nonsense"), "names no port"),
    (("--self-signed", "--only", "--market", "12"), "a peer id has 32 bytes"),
    (("--self-signed", "--trusted-proxy", "10.0.0.1/8"), "has host bits set"),
    (("--self-signed", "--trusted-proxy", "x"), "Write it as 10.0.0.0/8"),
    (("--self-signed", "--trusted-proxy", "::/0"), "believes everybody"),
    ((*LOOPBACK, "--limits", "absent.toml"), "no limits file absent.toml"),
    (("--self-signed", "--acme-email", "a@b.example"), "nothing without --acme"),
    (("--self-signed", "--shard", "10000"), "--shard"),
    ((*LOOPBACK, "--metrics-token-file", "absent"), "absent holds no token"),
    ((*LOOPBACK, "--data", "/dev/null/x"), "cannot use /dev/null/x"),
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What became of each wrong command; they are run a few at a time."""
    folder = tmp_path_factory.mktemp("wrong")
    data = {
        n: () if "--data" in options else ("--data", str(folder / f"{n}"))
        for n, (options, _) in enumerate(WRONG)
    }
    return run_all(
        {str(n): ("relay", *WRONG[n][0], *where) for n, where in data.items()}
    )


@pytest.mark.parametrize("number", range(len(WRONG)), ids=[why for _, why in WRONG])
def test_each_wrong_option_is_one_line(
    outcomes: dict[str, Outcome], number: int
) -> None:
    assert_one_error(outcomes[str(number)], WRONG[number][1])


def test_a_url_that_is_none_is_one_line(tmp_path: Path) -> None:
    shown = run_operator_command(
        *("relay", *LOOPBACK, "--public-url", "http://x"),
        *("--data", str(tmp_path)),
    )
    assert_one_line(shown, "does not begin with wss://")
