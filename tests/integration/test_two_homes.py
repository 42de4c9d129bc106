"""Two relays and four peers on hosts of their own: what one home loses, the other has.

One peer is behind a slow link, one loses its way to the first relay, then the whole of
the first relay is cut off: packets vanish, nobody hears a reset.
"""

import contextlib
import itertools
import time
from pathlib import Path

import pytest

from tests.support.home_peers import Program, program
from tests.support.hosts import hosts

WITHIN_S = 5.0
MAX_MISSED = 25  # questions in a row without answer: what is asked in that time
HALF_OPEN_S = 24.0  # longer than it takes to notice that a relay is silent
ASKED = (2, 3, 4)


@pytest.mark.slow
def test_service_goes_on_through_the_second_home(tmp_path: Path) -> None:
    names = ("one", "two", "asker", "near", "far", "slow")
    with hosts(*names) as network, contextlib.ExitStack() as running:

        def run(host: str, *words: str) -> Program:
            return running.enter_context(program(network[host], tmp_path, *words))

        relays = [
            run(name, "relay", str(number), network[name].address)
            for number, name in enumerate(names[:2])
        ]
        urls = [str(relay.wait_for("url")["url"]) for relay in relays]
        network["slow"].slow(kbit_s=500)
        peers = [
            run(name, "peer", str(number), "-", *urls)
            for number, name in zip(ASKED, names[3:], strict=True)
        ]
        for peer in peers:
            peer.wait_for("up")
        asker = run("asker", "peer", "1", ",".join(map(str, ASKED)), *urls)
        for each in (asker, *peers):
            each.wait_for("homes")
        settled = time.monotonic() + 5.0  # each path is probed more often than this
        wait_until(settled)
        wait_for_answers(asker, since=settled)

        network["far"].swallow(network["one"].address)
        wait_until(time.monotonic() + WITHIN_S)
        wait_for_answers(asker, since=time.monotonic())

        cut_at = time.monotonic()
        network["one"].cut()
        wait_until(cut_at + HALF_OPEN_S)
        wait_for_answers(asker, since=time.monotonic())
        for number in ASKED:
            missed = most_missed(asker, number, since=settled)
            assert missed < MAX_MISSED, (number, missed)
            silent_s = longest_silence(asker, number, since=settled)
            assert silent_s < HALF_OPEN_S, (number, silent_s)
        for each in (asker, *peers):
            assert not [line for line in each.lines if "lost" in line]
            assert not [line for line in each.lines if line.get("relay") is False]


def wait_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def answers_of(asker: Program, number: int, since: float) -> dict[int, float]:
    """Return when answers of a peer came, by the number of the question."""
    return {
        int(str(line["answer"])): float(str(line["at"]))
        for line in asker.lines
        if line.get("of") == number and float(str(line["at"])) >= since
    }


def wait_for_answers(asker: Program, since: float) -> None:
    deadline = time.monotonic() + 30
    while not all(answers_of(asker, number, since) for number in ASKED):
        assert time.monotonic() < deadline, asker.errors
        time.sleep(0.05)


def most_missed(asker: Program, number: int, since: float) -> int:
    """Return how many questions in a row had no answer, at most.

    On a machine with too much to do all takes longer, and as much less is asked.
    """
    answered = sorted(answers_of(asker, number, since))
    return max(b - a - 1 for a, b in itertools.pairwise(answered))


def longest_silence(asker: Program, number: int, since: float) -> float:
    times = sorted([since, *answers_of(asker, number, since).values()])
    return max(b - a for a, b in itertools.pairwise(times))
