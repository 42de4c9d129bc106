"""The demo's parts, with fakes for its processes; the whole runs in integration/."""

import signal
from types import SimpleNamespace

import pytest

from p2pmoe.client import Completion
from p2pmoe.demo import story
from p2pmoe.demo.facts import Metrics
from p2pmoe.demo.story import Script
from p2pmoe.local_network.processes import ChildFailed
from tests.support.trio_test import trio_test


class FakeProcess:
    def __init__(self) -> None:
        self.signals: list[int] = []

    def send_signal(self, number: int) -> None:
        self.signals.append(number)

    def kill(self) -> None:
        self.signals.append(signal.SIGKILL)

    async def wait(self) -> None:
        return None


class FakeApi:
    def __init__(self, *pages: str) -> None:
        self.pages = list(pages)

    async def metrics(self) -> str:
        return self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]


def network(*pages: str) -> SimpleNamespace:
    workers = {
        peer: SimpleNamespace(name=name, process=FakeProcess())
        for peer, name in (("aa", "hub"), ("bb", "edge-1"), ("cc", "edge-2"))
    }
    return SimpleNamespace(
        api=FakeApi(*pages),
        names={peer: child.name for peer, child in workers.items()},
        worker=workers.__getitem__,
        children=workers,
    )


CALLS = (
    'p2pmoe_worker_calls_total{worker="aa"} 900\n'
    'p2pmoe_worker_calls_total{worker="bb"} 40\n'
    'p2pmoe_worker_calls_total{worker="cc"} 30\n'
)


@trio_test(autojump=True)
async def test_the_busiest_edge_is_killed_only_with_a_request_in_flight():
    stage = network(
        CALLS,
        'p2pmoe_dispatches_in_flight{worker="bb"} 0\n',
        'p2pmoe_dispatches_in_flight{worker="bb"} 1\n',
    )
    assert await story._kill_in_flight(stage) == "bb"
    assert stage.children["bb"].process.signals == [signal.SIGSTOP, signal.SIGKILL]
    assert stage.children["aa"].process.signals == []


@trio_test(autojump=True)
async def test_a_request_that_never_flies_is_told():
    stage = network(CALLS)
    with pytest.raises(ChildFailed, match="no request to edge-1"):
        await story._kill_in_flight(stage)


def test_facts_come_from_what_the_processes_said():
    extension = {
        "tokens": [1, 2],
        "failovers": 1,
        "round_trips_per_token": 3.5,
        "calls": {"ram": 1, "disk": 0, "hub": 2, "edge": 3},
        "bytes_up": 10,
        "bytes_down": 20,
    }
    answer = Completion(
        text="ab", finish_reason="length", usage={}, extension=extension
    )
    told = story._Told(
        scattered=story._Scattered(
            answer=answer, killed="bb", seconds=0.5, worker_memory={"edge-1": 7}
        ),
        alone=answer,
        metrics=Metrics(
            "p2pmoe_servings_accepted_total 6\n"
            "p2pmoe_servings_unsigned_at_kill_total 1\n"
            'p2pmoe_kernel_rate_macs_per_second{kernel="wasm/plain"} 3e9\n'
        ),
        ledger={
            "verify": {"exit_code": 0, "verified": True, "receipts": 5},
            "statements": [
                {"worker": "aa", "servings": 3, "earned_uc": 300},
                {"worker": "bb", "servings": 2, "earned_uc": 200},
            ],
        },
    )
    facts = story._facts(Script(), told, names={"bb": "edge-1"}, seconds=1.0)
    assert facts.holds
    assert facts.tokens_per_s == 4.0
    assert facts.killed_worker == "edge-1"
    assert facts.kernel == "wasm/plain"
    assert facts.payouts == {"aa": 300, "bb": 200}
    assert facts.receipts_count == 5


def test_the_request_is_the_scripts():
    body = Script(prompt="x", seed=9).body()
    assert body == {"prompt": "x", "max_tokens": 64, "temperature": 0.8, "seed": 9}
