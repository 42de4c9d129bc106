"""The disks of a running network fill up: texts go on, and nothing signed is lost."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from p2pmoe.client import complete
from p2pmoe.demo.facts import Metrics
from tests.support.command_line import Running, run

pytestmark = pytest.mark.slow

BODY = {
    "prompt": "It was a dark night, and the old man",
    "max_tokens": 24,
    "temperature": 0.8,
    "seed": 7,
}
WITHIN_S = 120  # filings are repeated after up to 60 s


@dataclass(frozen=True)
class Network:
    relay: Running
    backbone: Running
    worker: Running
    url: str
    ledger: str  # folder

    @property
    def processes(self) -> tuple[Running, ...]:
        return (self.worker, self.backbone, self.relay)

    def text(self) -> str:
        return complete(self.url, BODY, show=lambda _: None).text

    def total(self, name: str) -> float:
        return Metrics(self._look("metrics").text).total(name)

    def covered(self) -> bool:
        return bool(self._look("readyz").json()["covered"] == 1.0)

    def _look(self, page: str) -> httpx.Response:
        return httpx.get(f"{self.url}/{page}", timeout=WITHIN_S, trust_env=False)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    started: list[Running] = []

    def start(*arguments: str) -> Running:
        started.append(Running(tmp_path, *arguments))
        return started[-1]

    try:
        relay = start(
            *("relay", "--self-signed", "--listen", "127.0.0.1:0"),
            *("--data", str(tmp_path / "net"), "--opening-credit", "1000"),
        )
        member = ("--invite", str(relay.report["invite"]))
        backbone = start(
            *("serve", "pocket", "--listen", "127.0.0.1:0", "--ram", "42M"),
            *("--data", str(tmp_path / "backbone"), *member),
        )
        worker = start(
            *("contribute", "--yes", "--preset", "max", "--memory", "64M", *member),
            *("--data", str(tmp_path / "worker")),
        )
        url = "http://{}:{}".format(*backbone.report["listen"])
        yield Network(relay, backbone, worker, url, str(tmp_path / "net" / "ledger"))
    finally:
        for process in reversed(started):
            process.kill()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def complains(process: Running) -> bool:
    log = process.log.read_text()
    return "File too large" in log or "disk I/O error" in log


def test_full_disks_stop_the_accounts_for_a_while_and_nothing_else(
    network: Network,
) -> None:
    until(network.covered)
    expected = network.text()
    assert network.total("p2pmoe_servings_accepted_total") > 0
    for process in network.processes:
        process.limit_files(0)
        end = time.monotonic() + WITHIN_S
        while not complains(process):
            assert network.text() == expected
            assert time.monotonic() < end, process.log.read_text()
        process.limit_files()
        for each in network.processes:
            assert each.is_running, each.log.read_text()
            assert "Traceback" not in each.log.read_text()
        until(lambda: network.total("p2pmoe_servings_open") == 0)
    assert network.text() == expected
    until(lambda: network.total("p2pmoe_servings_open") == 0)
    accepted = network.total("p2pmoe_servings_accepted_total")
    until(lambda: network.total("p2pmoe_servings_filed_total") == accepted)
    assert network.total("p2pmoe_vouchers_rejected_total") == 0
    for process in network.processes:
        assert process.stop() == 0, process.log.read_text()
    verified = run("ledger", "verify", "--data", network.ledger, "--json")
    assert verified.code == 0, verified.err
    assert json.loads(verified.out)["receipts"] == accepted
