"""What the demo tells: generate, kill a worker in mid-answer, settle, compare, verify.

Every figure comes from the processes themselves; `facts` works out what holds.
"""

import dataclasses
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from p2pmoe.client import Completion, complete
from p2pmoe.demo.facts import DemoFacts, Metrics
from p2pmoe.demo.network import (
    DemoNetwork,
    api_of,
    raise_network,
    start_backbone,
    wait_until_ready,
)
from p2pmoe.local_network.processes import PROGRAM, ChildFailed, Stage

__all__ = ["Screen", "Script", "play"]

KILL_AFTER_PIECES = 20
_CATCH_WITHIN_S = 20.0
_SETTLE_WITHIN_S = 20.0
_POLL_S = 0.005


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the demo plays: the prompt, how many tokens, and the model's room."""

    prompt: str = "It was a dark night, and the old man"
    max_tokens: int = 64
    temperature: float = 0.8
    seed: int = 7
    ram: str = "42M"  # about a quarter of the experts beside what must be there

    def body(self) -> dict[str, Any]:
        """Return the API request."""
        return {
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Where the demo shows itself: `step` a share done, `piece` text, `note` a line."""

    step: Callable[[str, float], None]
    piece: Callable[[str], None]
    note: Callable[[str], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Scattered:
    answer: Completion
    killed: str  # peer id in hex
    seconds: float
    worker_memory: dict[str, int]  # by name, the largest resident memory


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    scattered: _Scattered
    alone: Completion
    metrics: Metrics
    ledger: dict[str, Any]


async def play(folder: Path, script: Script, screen: Screen) -> DemoFacts:
    """Play the whole demo in `folder` and return what it found.

    Raises:
        ChildFailed: One of its processes failed where it should have worked.
        ApiError: The generation failed.
    """
    started = time.monotonic()
    stage = Stage(folder)
    try:
        network = await raise_network(stage, script.ram, screen.step)
        scattered = await _generate_and_kill(network, script, screen)
        screen.step("final vouchers", 0.3)
        metrics = await _settle(network)
        screen.step("the same prompt in a single process", 0.6)
        alone = await _single_process(stage, script)
        screen.step("ledger", 0.9)
        ledger = await _read_ledger(network)
    finally:
        await stage.stop_all()
    screen.step("done", 1.0)
    told = _Told(scattered=scattered, alone=alone, metrics=metrics, ledger=ledger)
    return _facts(
        script,
        told,
        names=network.names,
        seconds=time.monotonic() - started,
    )


async def _generate_and_kill(
    network: DemoNetwork, script: Script, screen: Screen
) -> _Scattered:
    enough = trio.Event()
    n_pieces = 0
    answers: list[Completion] = []
    victims: list[str] = []

    def show(piece: str) -> None:
        nonlocal n_pieces
        n_pieces += 1
        screen.piece(piece)
        if n_pieces == KILL_AFTER_PIECES:
            enough.set()

    def show_from_thread(piece: str) -> None:
        trio.from_thread.run_sync(show, piece)

    def ask() -> Completion:
        return complete(network.api.url, script.body(), show=show_from_thread)

    async def generate() -> None:
        answers.append(await trio.to_thread.run_sync(ask))

    memory: dict[str, int] = {}

    def measure() -> None:
        for child in network.workers:
            if child.is_running:
                memory[child.name] = child.resident_bytes()

    async def kill() -> None:
        await enough.wait()
        measure()
        victims.append(await _kill_in_flight(network))
        screen.note(f"killed {network.names[victims[0]]} with a request in flight")

    screen.piece(script.prompt)
    started = time.monotonic()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(generate)
        nursery.start_soon(kill)
    seconds = time.monotonic() - started
    measure()
    return _Scattered(
        answer=answers[0], killed=victims[0], seconds=seconds, worker_memory=memory
    )


async def _kill_in_flight(network: DemoNetwork) -> str:
    """SIGKILL an edge worker while a dispatch to it waits for its answer.

    The worker is stopped first, so that the next dispatch to it surely waits.
    """
    calls = Metrics(await network.api.metrics()).by(
        "p2pmoe_worker_calls_total", "worker"
    )
    edges = [peer for peer, name in network.names.items() if name.startswith("edge")]
    peer = max(edges, key=lambda edge: (calls.get(edge, 0), edge))
    child = network.worker(peer)
    child.process.send_signal(signal.SIGSTOP)
    with trio.move_on_after(_CATCH_WITHIN_S):
        while True:
            in_flight = Metrics(await network.api.metrics()).by(
                "p2pmoe_dispatches_in_flight", "worker"
            )
            if in_flight.get(peer, 0) > 0:
                child.process.kill()
                await child.process.wait()
                return peer
            await trio.sleep(_POLL_S)
    raise ChildFailed(f"no request to {child.name} was seen in flight")


async def _settle(network: DemoNetwork) -> Metrics:
    """Let every worker drain, and wait until no accepted serving is open."""
    async with trio.open_nursery() as nursery:
        for child in network.workers:
            if child.is_running:
                nursery.start_soon(child.stop, 10.0)
    with trio.move_on_after(_SETTLE_WITHIN_S):
        while True:
            metrics = Metrics(await network.api.metrics())
            if metrics.total("p2pmoe_servings_open") == 0:
                break
            await trio.sleep(0.05)
    metrics = Metrics(await network.api.metrics())
    await network.api.aclose()
    await network.backbone.stop(15.0)
    await network.relay.stop(15.0)
    return metrics


async def _single_process(stage: Stage, script: Script) -> Completion:
    child = await start_backbone(stage, "single", [], "256M")
    api = await api_of(child)
    await wait_until_ready(api, child, lambda _label, _share: None)
    answer = await trio.to_thread.run_sync(
        lambda: complete(api.url, script.body(), show=lambda _: None)
    )
    await api.aclose()
    await child.stop(10.0)
    return answer


async def _read_ledger(network: DemoNetwork) -> dict[str, Any]:
    """Return what the ledger's own commands say, each run as a process."""
    folder = str(network.ledger_folder)
    verify = await _command("ledger", "verify", "--data", folder, "--json")
    listed = await _command("ledger", "statement", "--data", folder, "--json")
    return {"verify": verify, "statements": listed["statements"]}


async def _command(*arguments: str) -> dict[str, Any]:
    done = await trio.run_process(
        [*PROGRAM, *arguments],
        capture_stdout=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    try:
        return {"exit_code": done.returncode, **json.loads(done.stdout)}
    except ValueError as error:
        raise ChildFailed(f"`p2pmoe {' '.join(arguments[:2])}` failed") from error


def _facts(
    script: Script,
    told: _Told,
    *,
    names: dict[str, str],
    seconds: float,
) -> DemoFacts:
    extension = told.scattered.answer.extension
    verify = told.ledger["verify"]
    statements = told.ledger["statements"]
    tokens = tuple(extension["tokens"])
    return DemoFacts(
        prompt=script.prompt,
        text=told.scattered.answer.text,
        tokens=tokens,
        single_process_tokens=tuple(told.alone.extension["tokens"]),
        kernel=", ".join(
            told.metrics.by("p2pmoe_kernel_rate_macs_per_second", "kernel")
        ),
        killed_worker=names[told.scattered.killed],
        failovers=extension["failovers"],
        round_trips_per_token=extension["round_trips_per_token"],
        calls=extension["calls"],
        bytes_up=extension["bytes_up"],
        bytes_down=extension["bytes_down"],
        tokens_per_s=len(tokens) / told.scattered.seconds,
        servings_accepted=int(told.metrics.total("p2pmoe_servings_accepted_total")),
        servings_unsigned_at_kill=int(
            told.metrics.total("p2pmoe_servings_unsigned_at_kill_total")
        ),
        receipts_count=sum(each["servings"] for each in statements),
        receipts_verified=verify.get("receipts", 0),
        payouts={each["worker"]: each["earned_uc"] for each in statements},
        names=names,
        ledger_verified=verify["exit_code"] == 0 and verify["verified"],
        worker_memory=told.scattered.worker_memory,
        seconds=seconds,
    )
