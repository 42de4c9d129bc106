"""Workers that err or cheat, against a real relay and a real backbone.

The text is that of the backbone alone, nobody is paid for a wrong answer, and who gave
one gets no more work.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import trio

from mobile_worker.contribute.proving import ProvenKernel, prove_arithmetic
from mobile_worker.contribute.settings import ContributeSettings
from mobile_worker.contribute.states import Facts, Status
from p2pmoe.client import Completion, complete
from p2pmoe.demo.facts import Metrics
from tests.support.command_line import Running, assert_one_error, run
from tests.support.flawed_kernel import LyingKernel
from tests.support.hostile_workers import BENDS, as_it_is, hostile_worker
from tests.support.trio_test import trio_test

BODY = {
    "prompt": "It was a dark night, and the old man",
    "max_tokens": 12,
    "temperature": 0.8,
    "seed": 7,
}
REFUSED = ("nan_rows", "one_row_more", "one_row_less")
CHECKED = ("rows_turned", "one_bit", "zeros", "noise", "cached")
WITHIN_S = 180


def first_is_quick(kinds: tuple[str, ...]) -> list[object]:
    """The first of some alike cases in `make test`, the others in `make test-all`."""
    slow = [pytest.param(kind, marks=pytest.mark.slow) for kind in kinds[1:]]
    return [kinds[0], *slow]


@dataclass(frozen=True)
class Network:
    """A relay with market and ledger, and a backbone that needs other machines."""

    folder: Path
    invite: str
    url: str
    text: str  # of the backbone alone

    async def answer(self) -> Completion:
        def ask() -> Completion:
            return complete(self.url, BODY, show=lambda _: None)

        return await trio.to_thread.run_sync(ask)

    async def answer_until_more(self, name: str, **labels: str) -> Completion:
        """Return the first answer by which a count has grown; all have the text.

        A worker that came too late, on a busy machine, is left out for a moment.
        """
        before = self.metrics().total(name, **labels)
        with trio.fail_after(WITHIN_S):
            while True:
                answer = await self.answer()
                assert answer.text == self.text
                if self.metrics().total(name, **labels) > before:
                    return answer

    def metrics(self) -> Metrics:
        return Metrics(look(f"{self.url}/metrics").text)

    def status(self, worker: str) -> str:
        states = ("greeting", "live", "demoted", "gone", "dropped")
        metrics = self.metrics()
        held = [
            state
            for state in states
            if metrics.total("p2pmoe_worker_status", worker=worker, status=state)
        ]
        return held[0] if held else "unknown"

    def is_covered(self, worker: str) -> bool:
        """Whether every expert is at hand or has a live holder, this one among them."""
        covered = look(f"{self.url}/readyz").json()["covered"]
        return bool(covered == 1.0) and self.status(worker) == "live"

    def vouchers(self, worker: str) -> list[dict[str, object]]:
        """Return what the ledger has of this worker, filed or rejected."""
        data = str(self.folder / "net" / "ledger")
        listed = run("ledger", "receipts", "--data", data, "--json")
        assert listed.code == 0, listed.err
        found = json.loads(listed.out)["vouchers"]
        return [each for each in found if each["worker"] == worker]


def look(url: str) -> httpx.Response:
    return httpx.get(url, timeout=WITHIN_S, trust_env=False)


async def until(holds: Callable[[], bool]) -> None:
    """Ask again and again, within bounds, until it holds."""
    with trio.fail_after(WITHIN_S):
        while True:
            if holds():
                return
            await trio.sleep(0.05)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("network")
    relay = Running(
        folder,
        *("relay", "--self-signed", "--listen", "127.0.0.1:0"),
        *("--data", str(folder / "net"), "--opening-credit", "1000"),
    )
    invite = relay.report["invite"]
    backbone = Running(
        folder,
        *("serve", "pocket", "--listen", "127.0.0.1:0", "--ram", "42M"),
        *("--wait-coverage", "0", "--invite", invite),
        *("--data", str(folder / "backbone")),
    )
    try:
        backbone.said("relay is up")
        url = "http://{}:{}".format(*backbone.report["listen"])
        while look(f"{url}/readyz").status_code != 200:
            assert backbone.is_running
            time.sleep(0.05)
        text = complete(url, BODY, show=lambda _: None).text
        yield Network(folder, invite, url, text)
        for process in (relay, backbone):
            assert process.is_running
            assert "Traceback" not in process.log.read_text()
    finally:
        backbone.kill()
        relay.kill()


@pytest.mark.parametrize("kind", first_is_quick(REFUSED))
def test_b14_an_answer_that_is_none_is_refused_and_computed_elsewhere(
    network: Network, tmp_path: Path, kind: str
) -> None:
    @trio_test
    async def main() -> None:
        async with hostile_worker(tmp_path, network.invite, BENDS[kind]) as worker:
            await until(lambda: network.is_covered(worker))
            answer = await network.answer_until_more("p2pmoe_refused_outputs_total")
            assert answer.extension["failovers"] > 0
            calls = network.metrics().total("p2pmoe_worker_calls_total", worker=worker)
            assert calls == 0
            with trio.fail_after(WITHIN_S):  # after 2 s and more it is greeted again
                while network.status(worker) not in {"demoted", "dropped"}:
                    assert (await network.answer()).text == network.text
            assert network.vouchers(worker) == []

    main()


@pytest.mark.parametrize("kind", first_is_quick(CHECKED))
def test_b34_a_wrong_result_is_caught_by_the_check_and_ends_the_business(
    network: Network, tmp_path: Path, kind: str
) -> None:
    @trio_test
    async def main() -> None:
        async with hostile_worker(tmp_path, network.invite, BENDS[kind]) as worker:
            await until(lambda: network.is_covered(worker))
            checks = "p2pmoe_spot_checks_total"
            await network.answer_until_more(checks, result="failed")
            await until(lambda: network.status(worker) == "dropped")
            again = await network.answer()
            assert again.text == network.text
            assert again.extension["failovers"] == 0  # nobody asks it any more
            assert network.status(worker) == "dropped"
        assert network.vouchers(worker) == []

    main()


@pytest.mark.slow
@pytest.mark.parametrize("kind", REFUSED)
def test_b34_three_answers_that_are_none_end_the_business(
    network: Network, tmp_path: Path, kind: str
) -> None:
    @trio_test
    async def main() -> None:
        async with hostile_worker(tmp_path, network.invite, BENDS[kind]) as worker:
            await until(lambda: network.is_covered(worker))
            with trio.fail_after(WITHIN_S):
                while network.status(worker) != "dropped":
                    assert (await network.answer()).text == network.text
        assert network.vouchers(worker) == []

    main()


class Seen:
    """What a worker's own view showed, state by state."""

    def __init__(self) -> None:
        self.probation: list[str] = []
        self.leased: list[int] = []

    def note(self, _status: Status, facts: Facts) -> None:
        if not self.probation or self.probation[-1] != facts.probation:
            self.probation.append(facts.probation)
        if not self.leased or self.leased[-1] != facts.n_leased:
            self.leased.append(facts.n_leased)


@pytest.mark.slow
def test_an_honest_worker_proves_what_it_holds_and_is_told(
    network: Network, tmp_path: Path
) -> None:
    @trio_test
    async def main() -> None:
        seen = Seen()
        async with hostile_worker(tmp_path, network.invite, as_it_is, report=seen.note):
            await until(lambda: len(seen.probation) > 1 and not seen.probation[-1])
        assert "of 20 checks passed" in "".join(seen.probation)
        assert seen.leased[-1] > 0

    main()


@pytest.mark.slow
def test_b34_a_wrong_canary_ends_the_lease_before_any_serving(
    network: Network, tmp_path: Path
) -> None:
    """Nobody else holds these experts: the backbone's own word decides."""

    def prove(settings: ContributeSettings) -> ProvenKernel:
        kernel = LyingKernel(decoded_cache_bytes=settings.decoded_bytes)
        digest = prove_arithmetic(kernel)
        kernel.is_honest = False
        return ProvenKernel(kernel=kernel, self_test=digest, rate_macs_s=10**9)

    @trio_test
    async def main() -> None:
        seen = Seen()
        async with hostile_worker(
            tmp_path, network.invite, as_it_is, report=seen.note, prove=prove
        ) as worker:
            await until(lambda: max(seen.leased) > 0 and seen.leased[-1] == 0)
            assert (
                network.metrics().total("p2pmoe_worker_calls_total", worker=worker) == 0
            )
        assert network.vouchers(worker) == []

    main()


# The real command with a kernel that is wrong in one bit, and then one that also lies
# about its self-test.
FLAWED = (
    "import mobile_worker.contribute.proving as proving\n"
    "from mobile_worker.arithmetic.candidates import Candidate, Keeps\n"
    "from tests.support.flawed_kernel import OneBitKernel\n"
    "def flawed(n_bytes):\n"
    "    return OneBitKernel(decoded_cache_bytes=n_bytes)\n"
    "numpy = Candidate(name='numpy', keeps=Keeps.UNPACKED, open=flawed)\n"
    "proving.kernel_candidates = lambda n_threads: (numpy,)\n"
)
LYING = (
    "import mobile_worker.arithmetic.select as select\n"
    "select.self_test = lambda kernel: select.SELF_TEST_DIGEST\n"
    "proving.prove_arithmetic = lambda kernel: bytes(32)\n"
)
MAIN = "import p2pmoe.cli.main\np2pmoe.cli.main.main()\n"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (FLAWED, "no kernel computes rightly on this machine"),
        (FLAWED + LYING, "the market refuses this worker: "),
    ],
    ids=["honest", "lying"],
)
def test_arithmetic_that_differs_by_one_bit_does_not_join(
    network: Network, tmp_path: Path, lines: str, reason: str
) -> None:
    outcome = run(
        *("contribute", "--invite", network.invite, "--yes", "--memory", "64M"),
        *("--data", str(tmp_path / "data")),
        program=(sys.executable, "-c", lines + MAIN),
    )
    assert_one_error(outcome, reason)
