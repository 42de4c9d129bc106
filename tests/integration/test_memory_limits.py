"""Commands in a memory cgroup: what cannot be kept is refused, what is kept is kept."""

import re
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.support.cgroups import memory_group_or_skip
from tests.support.command_line import PROGRAM, Running, assert_one_error, run

MIB = 1 << 20
N_REQUESTS, N_PROMPT, N_TOKENS = 10, 1500, 8
WITHIN_S = 600.0  # all are asked at once, and the last waits for all others


def test_b15_a_worker_may_not_promise_what_its_group_lacks(tmp_path: Path) -> None:
    """A machine with gigabytes free, and a group with less than was promised."""
    relay = "wss://127.0.0.1:9/relay"
    words = ("contribute", relay, "--data", str(tmp_path), "--memory", "128M")
    with memory_group_or_skip(140 * MIB) as group:
        refused = run(*words, program=group.command(*PROGRAM))
        assert group.use().peak < 140 * MIB
    assert_one_error(refused, "128.0 MiB is above 90 % of the", "--memory")


def test_b15_what_nobody_names_is_what_the_group_has(tmp_path: Path) -> None:
    """Without --memory the limits' share is taken, and never what the group lacks."""
    relay = "wss://127.0.0.1:9/relay"
    words = ("contribute", relay, "--yes", "--data", str(tmp_path), "--preset", "max")
    with memory_group_or_skip(160 * MIB) as group:
        outcome = run(*words, program=group.command(*PROGRAM))
        assert group.use().peak < 160 * MIB
    (told,) = re.findall(r"memory  up to ([\d.]+)M", outcome.err)
    assert 4 <= float(told) <= 0.8 * 160


def prompt(number: int) -> list[int]:
    return [(7 * number + 13 * k) % 4000 + 20 for k in range(N_PROMPT)]


class Answers:
    """The answers to long prompts that are all asked at once, by number."""

    def __init__(self, url: str) -> None:
        self.tokens: dict[int, list[int]] = {}
        self.refused: list[str] = []
        self._url = url
        threads = [
            threading.Thread(target=self._ask, args=(n,)) for n in range(N_REQUESTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WITHIN_S)

    def _ask(self, number: int) -> None:
        body = {"prompt": prompt(number), "max_tokens": N_TOKENS, "temperature": 0}
        with httpx.Client(trust_env=False, timeout=WITHIN_S) as client:
            answer = client.post(f"{self._url}/v1/completions", json=body)
        if answer.status_code == 200:
            self.tokens[number] = answer.json()["p2pmoe"]["tokens"]
        else:
            self.refused.append(answer.text)


@pytest.mark.slow
def test_many_long_contexts_queue_and_stay_inside(tmp_path: Path) -> None:
    """Their keys and values take 57 MB together; --ram leaves about 20 for them."""
    ram_bytes, others_bytes = 40 * MIB, 80 * MIB  # the program itself takes 70
    with memory_group_or_skip(ram_bytes + others_bytes) as group:
        serve = Running(
            tmp_path,
            *("serve", "pocket", "--listen", "127.0.0.1:0", "--data", str(tmp_path)),
            *("--ram", "40M", "--context", "2048"),
            program=group.command(*PROGRAM),
        )
        try:
            url = "http://{}:{}".format(*serve.report["listen"])
            _until_ready(url)
            before = group.use().anonymous
            answers = Answers(url)
            use = group.use()
        finally:
            serve.kill()
        assert answers.refused == []
        assert len(answers.tokens) == N_REQUESTS
        assert use.anonymous < before + ram_bytes
        assert (use.swapped, use.failures) == (0, 0)


def _until_ready(url: str) -> None:
    end = time.monotonic() + WITHIN_S
    ready = f"{url}/readyz"
    while httpx.get(ready, timeout=WITHIN_S, trust_env=False).status_code != 200:
        assert time.monotonic() < end
        time.sleep(0.05)
