"""What one request to a backbone cost, as its API tells; for bench-wan.

Counted from the first token on, which is the prefill's: g is tokens a pass, A waits for
the network a token, acceptance the share of drafts that were kept.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import trio

from p2pmoe.passes.documents import read_pass
from p2pmoe.passes.values import PassTrace

__all__ = ["Asked", "Run", "joined", "run_request", "stream_gaps", "together"]

_ANSWER_WITHIN_S = 580.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request; temperature 0 is greedy, which such a small model soon repeats."""

    prompt: str
    n_tokens: int
    temperature: float = 0.0
    seed: int = 0

    def body(self) -> dict[str, Any]:
        """Return it as the API takes it."""
        return {
            "prompt": self.prompt,
            "max_tokens": self.n_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "explain": True,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of one request, or of several added up; times are of decoding."""

    tokens: tuple[int, ...]
    decode_s: float
    prefill_s: float
    n_passes: int
    trips: int
    prefill_trips: int
    wait_s: float
    drafted: int
    accepted: int
    bytes_up: int
    bytes_down: int
    n_first: int = 1  # of `tokens` came of prefill
    hedges: int = 0
    calls: int = 0
    fetched_bytes: int = 0  # of weights
    passes: tuple[PassTrace, ...] = ()  # the prompt's too

    @property
    def n_decoded(self) -> int:
        """Tokens that passes of decoding committed."""
        return len(self.tokens) - self.n_first

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.n_decoded / self.decode_s

    @property
    def a(self) -> float:
        """Waits for the network a token."""
        return self.trips / self.n_decoded

    @property
    def g(self) -> float:
        """Tokens a pass."""
        return self.n_decoded / max(1, self.n_passes)

    @property
    def acceptance(self) -> float:
        """The share of drafts that were kept, in percent."""
        return 100 * self.accepted / self.drafted if self.drafted else 0.0

    @property
    def crossing_ms(self) -> float:
        """What a wait takes."""
        return 1000 * self.wait_s / self.trips if self.trips else 0.0

    @property
    def digest(self) -> str:
        """A hash of the tokens."""
        raw = b"".join(token.to_bytes(4, "little") for token in self.tokens)
        return hashlib.sha256(raw).hexdigest()[:16]


async def run_request(url: str, asked: Asked) -> Run:
    """Ask for a whole answer."""
    async with httpx.AsyncClient(trust_env=False, timeout=_ANSWER_WITHIN_S) as client:
        answer = await client.post(f"{url}/v1/completions", json=asked.body())
        answer.raise_for_status()
        return _run_of(answer.json())


async def together(url: str, several: Sequence[Asked]) -> tuple[list[Run], float]:
    """Ask for several answers at once; the runs in order, and the seconds for all."""
    runs: dict[int, Run] = {}

    async def one(number: int, asked: Asked) -> None:
        runs[number] = await run_request(url, asked)

    start = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for number, asked in enumerate(several):
            nursery.start_soon(one, number, asked)
    took_s = time.perf_counter() - start
    return [runs[number] for number in range(len(several))], took_s


async def stream_gaps(url: str, asked: Asked) -> tuple[list[float], tuple[int, ...]]:
    """Ask for a stream; the seconds between its chunks, and the tokens at its end."""
    gaps: list[float] = []
    tokens: tuple[int, ...] = ()
    body = {**asked.body(), "stream": True, "explain": False}
    async with (
        httpx.AsyncClient(trust_env=False, timeout=_ANSWER_WITHIN_S) as client,
        client.stream("POST", f"{url}/v1/completions", json=body) as answer,
    ):
        answer.raise_for_status()
        last = None
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            now = time.perf_counter()
            if last is not None:
                gaps.append(now - last)
            last = now
            told = json.loads(line.removeprefix("data: "))
            tokens = tuple(told.get("p2pmoe", {}).get("tokens", tokens))
    return gaps, tokens


def joined(runs: Sequence[Run]) -> Run:
    """Add up several runs."""
    return Run(
        tokens=tuple(token for run in runs for token in run.tokens),
        decode_s=sum(run.decode_s for run in runs),
        prefill_s=sum(run.prefill_s for run in runs),
        n_passes=sum(run.n_passes for run in runs),
        trips=sum(run.trips for run in runs),
        prefill_trips=sum(run.prefill_trips for run in runs),
        wait_s=sum(run.wait_s for run in runs),
        drafted=sum(run.drafted for run in runs),
        accepted=sum(run.accepted for run in runs),
        bytes_up=sum(run.bytes_up for run in runs),
        bytes_down=sum(run.bytes_down for run in runs),
        n_first=sum(run.n_first for run in runs),
        hedges=sum(run.hedges for run in runs),
        calls=sum(run.calls for run in runs),
        fetched_bytes=sum(run.fetched_bytes for run in runs),
        passes=tuple(one for run in runs for one in run.passes),
    )


def _run_of(answer: Mapping[str, Any]) -> Run:
    told, timings = answer["p2pmoe"], answer["timings"]
    passes = tuple(read_pass(one) for one in told["passes"])
    return Run(
        tokens=tuple(told["tokens"]),
        decode_s=timings["decode_s"],
        prefill_s=timings["prefill_s"],
        n_passes=sum(one.n_committed > 0 for one in passes) - 1,
        trips=told["round_trips"],
        prefill_trips=told["prefill_round_trips"],
        wait_s=told["wait_s"],
        drafted=told["drafted_tokens"],
        accepted=told["accepted_draft_tokens"],
        bytes_up=told["bytes_up"],
        bytes_down=told["bytes_down"],
        hedges=told["hedges"],
        calls=told["calls"]["hub"] + told["calls"]["edge"],
        fetched_bytes=told.get("fetched_bytes", 0),
        passes=passes,
    )
