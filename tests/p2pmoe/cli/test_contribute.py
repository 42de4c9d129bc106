"""`p2pmoe contribute` as people meet it: a real relay, and wrong options."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from p2pmoe.cli import contribute, extras
from p2pmoe.cli.extras import ExtraMissing
from tests.support.command_line import Outcome, assert_one_error, run_all
from tests.support.worker_processes import Process, run_command

MEGABYTE = 1 << 20
HUB = ("wss://127.0.0.1:1/relay", "--hub", "--listen", "127.0.0.1:0")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the invite of a running network without a model."""
    folder = tmp_path_factory.mktemp("network")
    relay = Process(
        folder,
        "relay",
        *("relay", "--self-signed", "--listen", "127.0.0.1:0"),
        *("--data", str(folder / "net")),
    )
    yield Path(relay.report["invite"])
    relay.kill()


def worker(folder: Path, invite: Path, *options: str) -> Process:
    return Process(
        folder,
        "worker",
        *("contribute", "--invite", str(invite), "--yes", "--memory", "64M"),
        *("--data", str(folder / "data"), *options),
    )


def assert_one_line(shown, reason: str) -> None:
    assert shown.returncode == 2, shown.stderr
    errors = [line for line in shown.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, shown.stderr
    assert reason in errors[0]
    assert "Traceback" not in shown.stderr


def niceness_of_threads(process: Process) -> set[int]:
    """Return the threads' nice values, nothing where each has not its own."""
    if sys.platform != "linux":
        return set()
    found = set()
    for thread in Path(f"/proc/{process.process.pid}/task").iterdir():
        with suppress(ProcessLookupError):
            found.add(os.getpriority(os.PRIO_PROCESS, int(thread.name)))
    return found


def test_it_joins_small_and_drains_on_sigterm(network: Path, tmp_path: Path) -> None:
    process = worker(tmp_path, network)
    assert len(bytes.fromhex(process.report["peer_id"])) == 32
    second = run_command(
        *("contribute", "--invite", str(network), "--yes", "--memory", "64M"),
        *("--data", str(tmp_path / "data")),
    )
    assert_one_line(second, "in use by another process")
    assert process.resident_bytes() < 110 * MEGABYTE
    assert niceness_of_threads(process) <= {19}  # of the preset quiet
    assert process.stop(signal.SIGTERM) == 0
    log = process.log.read_text()
    assert "up to 64M" in log
    assert f"computing with {process.report['kernel']}" in log
    assert "idle no demand: " in log
    assert "draining: stopped by its user" in log
    assert "Traceback" not in log


def test_a_hub_says_where_it_listens_and_an_interrupt_is_130(
    network: Path, tmp_path: Path
) -> None:
    process = worker(tmp_path, network, "--hub", "--listen", "127.0.0.1:0", "--json")
    (address,) = process.report["direct_addresses"]
    assert address.startswith("127.0.0.1:")
    assert process.stop(signal.SIGINT) == 130
    assert '"state": "draining"' in process.log.read_text()


WRONG: list[tuple[tuple[str, ...], str]] = [
    ((), "no invite to a network was given"),
    (("--invite", "absent.json"), "cannot read invite absent.json"),
    (("http://x",), "http://x"),
    (("wss://127.0.0.1:1/relay",), "cannot be reached"),
    (("wss://127.0.0.1:1/relay", "--memory", "lots"), "--memory 'lots'"),
    (("wss://127.0.0.1:1/relay", "--memory", "1000T"), "above 90 %"),
    (("wss://127.0.0.1:1/relay", "--memory", "1M"), "too little"),
    (("wss://127.0.0.1:1/relay", "--disk", "-1"), "--disk '-1'"),
    (("wss://127.0.0.1:1/relay", "--threads", "0"), "0 threads"),
    (("wss://127.0.0.1:1/relay", "--hub"), "--hub and --listen"),
    (("wss://127.0.0.1:1/relay", "--listen", ":1"), "--hub and --listen"),
    (("wss://127.0.0.1:1/relay", "--hub", "--listen", "x"), "is not HOST:PORT"),
    (("wss://127.0.0.1:1/relay", "--domain", ""), "--domain ''"),
    (("wss://127.0.0.1:1/relay", "--advertise", "h:1"), "for a --hub alone"),
    ((*HUB, "--advertise", "nowhere"), "no such address: 'nowhere'"),
    ((*HUB, "--advertise", "a b:1"), "--advertise 'a b:1' is no HOST:PORT"),
    ((*HUB, *("--advertise", "h:1") * 9), "more than 8 times"),
]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What became of each wrong command; they are run a few at a time."""
    folder = tmp_path_factory.mktemp("wrong")
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("P2PMOE_INVITE", raising=False)
        return run_all(
            {
                str(n): (
                    "contribute",
                    *options,
                    "--yes",
                    "--data",
                    str(folder / f"{n}"),
                )
                for n, (options, _) in enumerate(WRONG)
            }
        )


@pytest.mark.parametrize("number", range(len(WRONG)), ids=[why for _, why in WRONG])
def test_each_wrong_option_is_one_line(shown: dict[str, Outcome], number: int) -> None:
    assert_one_error(shown[str(number)], WRONG[number][1])


def test_a_folder_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shown = run_command(
        *("contribute", "wss://127.0.0.1:1/relay", "--yes"),
        *("--data", str(tmp_path / "file")),
    )
    assert_one_line(shown, "cannot write identity file")


def test_another_relay_than_the_invites_is_refused(network: Path) -> None:
    other = f"wss://127.0.0.1:1/relay#{'03' * 32}"
    shown = run_command("contribute", other, "--invite", str(network), "--yes")
    assert shown.returncode == 2
    assert "error: " in shown.stderr


def test_the_local_network_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not contribute._lan(wanted=False)
    monkeypatch.setattr(extras, "find_spec", lambda _name: None)
    with pytest.raises(ExtraMissing, match="local network"):
        contribute._lan(wanted=True)
