"""A whole network of real processes on loopback, each role apart, for tests that kill.

    relay --only, market, ledgerd, a backbone on the pocket model, one hub, three edges

Every process is started and ended here, by its own handle; none outlives the test. A
part that is started again has the same folder and, if it listens, the same port, which
nobody else is given meanwhile.
"""

import contextlib
import dataclasses
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from ledger.database import Reader
from ledger.spool import Spool
from mobile_worker.servings.filing import SpoolKind
from p2pmoe.client import Completion
from p2pmoe.demo.facts import Metrics
from p2pmoe.demo.network import Api, wait_until_ready
from p2pmoe.local_network.processes import Child, Stage
from tests.support.generations import Generation, Prompt
from tests.support.independent import independent
from tests.support.ports import reserved_port

__all__ = [
    "EDGES",
    "WORKERS",
    "Books",
    "Network",
    "network_running",
]

EDGES = ("edge-1", "edge-2", "edge-3")
WORKERS = ("hub", *EDGES)
START_WITHIN_S = 120.0
_MORE_LIVES = 4
_POLL_S = 0.05
_ANY_PORT = "127.0.0.1:0"
_MEMORY = {"hub": "8M"}  # of experts: none can hold all of them
_EDGE_MEMORY = "5M"


@dataclasses.dataclass(slots=True, kw_only=True)
class _Part:
    arguments: list[str]
    child: Child
    lives: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Servings as the backbone counts them, and the ledger's receipts by worker."""

    accepted: int
    signed: int
    unsigned: int  # at kills
    receipts: dict[str, int]

    @property
    def n_receipts(self) -> int:
        """Servings that the ledger has receipts for."""
        return sum(self.receipts.values())


class Network:
    """The running parts by name: relay, market, ledgerd, backbone, hub, edge-1..3."""

    def __init__(self, folder: Path, nursery: trio.Nursery, memory: str = "") -> None:
        self.folder = folder
        self._memory = memory
        self.invite = str(folder / "net" / "invite.json")
        self.peers: dict[str, str] = {}  # worker's name -> peer id in hex
        self._stage = Stage(folder)
        self._parts: dict[str, _Part] = {}
        self._ports = contextlib.ExitStack()
        self._nursery = nursery
        self._api: Api | None = None

    @property
    def api(self) -> Api:
        """The backbone's HTTP side."""
        assert self._api is not None
        return self._api

    @property
    def ledger_folder(self) -> Path:
        """Where the ledger's store is."""
        return self.folder / "net" / "ledger"

    # Processes.

    def child(self, name: str) -> Child:
        """Return the process that plays this part now."""
        return self._parts[name].child

    async def start(self, name: str, *arguments: str) -> dict[str, Any]:
        """Start a part, the first time with arguments; return its ready report."""
        known = self._parts.get(name)
        if known is None:
            own = [self._with_port(word) for word in arguments]
            child = await self._stage.start(f"{name}-1", own)
            known = _Part(arguments=own, child=child)
            self._parts[name] = known
        else:
            assert not known.child.is_running, f"{name} runs already"
            known.lives += 1
            called = f"{name}-{known.lives}"
            known.child = await self._stage.start(called, known.arguments)
        return await known.child.ready(START_WITHIN_S)

    def _with_port(self, word: str) -> str:
        """Return an argument with a port that stays the part's own, if it takes any."""
        if word != _ANY_PORT:
            return word
        return f"127.0.0.1:{self._ports.enter_context(reserved_port())}"

    async def kill(self, name: str) -> None:
        """SIGKILL a part; it must have been alive until now."""
        child = self.child(name)
        assert child.is_running, f"{name} has ended by itself: {child.last_line()}"
        child.process.kill()
        await child.process.wait()

    async def stop(self, name: str, within_s: float = 60.0) -> None:
        """Have a part drain and end, with exit code 0."""
        child = self.child(name)
        assert child.is_running, f"{name} has ended by itself: {child.last_line()}"
        code = await child.stop(within_s)
        assert code == 0, f"{name} ended with {code}: {child.last_line()}"

    def freeze(self, name: str) -> None:
        """SIGSTOP a part."""
        self.child(name).process.send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT a part."""
        self.child(name).process.send_signal(signal.SIGCONT)

    async def start_backbone(self, model: str) -> None:
        """Start the backbone for the first time."""
        report = await self.start(
            "backbone",
            *("serve", model, "--listen", "127.0.0.1:0", "--ram", "40M"),
            *("--data", str(self.folder / "backbone"), "--invite", self.invite),
        )
        host, port = report["listen"]
        self._api = Api(host, port)

    async def start_worker(self, name: str) -> None:
        """Start a worker for the first time."""
        hub = ["--hub", "--listen", "127.0.0.1:0"] if name == "hub" else []
        report = await self.start(
            name,
            *("contribute", "--invite", self.invite, "--yes", "--preset", "max"),
            *("--memory", self._memory or _MEMORY.get(name, _EDGE_MEMORY)),
            *("--domain", name),
            *("--data", str(self.folder / name), *hub),
        )
        self.peers[name] = str(report["peer_id"])

    async def end(self) -> None:
        """End every process that still runs."""
        with trio.CancelScope(shield=True):
            if self._api is not None:
                await self._api.aclose()
            await self._stage.stop_all(3.0)
        self._ports.close()

    # What the backbone says.

    async def metrics(self) -> Metrics:
        """Return the backbone's page of samples."""
        return Metrics(await self.api.metrics())

    async def calls(self, name: str) -> int:
        """Return how many accepted calls this worker has computed."""
        metrics = await self.metrics()
        worker = self.peers[name]
        return int(metrics.total("p2pmoe_worker_calls_total", worker=worker))

    async def until(
        self, holds: Callable[[Metrics], bool], what: str, within_s: float = 60.0
    ) -> Metrics:
        """Wait until the backbone's metrics satisfy `holds`."""
        with trio.move_on_after(within_s):
            while True:
                metrics = await self.metrics()
                if holds(metrics):
                    return metrics
                await trio.sleep(_POLL_S)
        raise AssertionError(f"not within {within_s:.0f} s: {what}")

    async def live(self, *names: str, within_s: float = 60.0) -> None:
        """Wait until the backbone takes these workers for live."""

        def all_live(metrics: Metrics) -> bool:
            return all(
                metrics.total(
                    "p2pmoe_worker_status", worker=self.peers[name], status="live"
                )
                for name in names
            )

        await self.until(all_live, f"{', '.join(names)} live", within_s)

    async def ready(self) -> None:
        """Wait until the backbone takes traffic."""
        await wait_until_ready(self.api, self.child("backbone"), lambda *_: None)

    # Work.

    def generate(self, prompt: Prompt) -> Generation:
        """Begin an answer."""
        generation = Generation()
        self._nursery.start_soon(generation.run, self.api.url, prompt)
        return generation

    async def answer(self, prompt: Prompt) -> Completion:
        """Return a whole answer."""
        return await self.generate(prompt).finished()

    async def close_the_books(self) -> Books:
        """Let all end in order, and return what accounts and ledger then say.

        Fails if the ledger does not verify, by its own audit and by the auditor's
        script alike, if it rejected a voucher, or if a worker could not file one.
        """
        async with trio.open_nursery() as nursery:
            for name in self.peers:
                nursery.start_soon(self._stop_worker, name)
        metrics = await self.until(
            lambda metrics: metrics.total("p2pmoe_servings_open") == 0,
            "no serving is open",
        )
        for name in ("backbone", "ledgerd", "market", "relay"):
            if name in self._parts:
                await self.stop(name)
        verify = await self._ledger("verify")
        assert verify["exit_code"] == 0, verify
        await trio.to_thread.run_sync(self._ask_the_auditor, verify)
        assert metrics.total("p2pmoe_vouchers_rejected_total") == 0
        for name in self.peers:
            assert not self._unfiled(name), f"{name} has not filed all"
        statements = (await self._ledger("statement"))["statements"]
        receipts = {each["worker"]: each["servings"] for each in statements}
        assert verify["receipts"] == sum(receipts.values())
        return Books(
            accepted=int(metrics.total("p2pmoe_servings_accepted_total")),
            signed=int(metrics.total("p2pmoe_servings_receipted_total")),
            unsigned=int(metrics.total("p2pmoe_servings_unsigned_at_kill_total")),
            receipts=receipts,
        )

    def _ask_the_auditor(self, verify: dict[str, Any]) -> None:
        """Compare what the second verifier finds in the same files."""
        owner = Reader(self.ledger_folder).identity
        ids = independent.Ids(owner.network, owner.ledger, owner.market)
        for name, number in independent.verify(self.ledger_folder, ids).items():
            assert verify[name] == number, name

    async def _stop_worker(self, name: str) -> None:
        """Have a worker end; if it did not reach the ledger, once more.

        A service that lost the relay waits up to 30 s before it tries again, a worker
        that is asked to end waits 10 s for it: what is left then, its next start files.
        """
        await self.stop(name)
        for _ in range(_MORE_LIVES):
            if not self._unfiled(name):
                return
            await self.start(name)
            await self.stop(name)

    def _unfiled(self, name: str) -> bool:
        """Whether a worker's spool holds vouchers that the ledger has not got."""
        with Spool(self.folder / name / "spool") as spool:
            return any(entry.kind == SpoolKind.SETTLED for entry in spool.entries())

    async def _ledger(self, command: str) -> dict[str, Any]:
        """Return the JSON of a command on the ledger's folder, and its exit code."""
        folder = str(self.ledger_folder)
        arguments = ("ledger", command, "--data", folder, "--json")
        done = await trio.run_process(
            [sys.executable, "-m", "p2pmoe", *arguments],
            capture_stdout=True,
            capture_stderr=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.stdout, done.stderr.decode()
        return {"exit_code": done.returncode, **json.loads(done.stdout)}


@contextlib.asynccontextmanager
async def network_running(
    folder: Path,
    *,
    workers: Sequence[str] = WORKERS,
    model: str = "pocket",
    apart: bool = True,
    market: Sequence[str] = (),
    memory: str = "",
) -> AsyncIterator[Network]:
    """Run a network in a folder, all of its experts covered, all workers live.

    With `apart` market and ledger are processes of their own, else the relay's;
    `market` are further options of whoever runs the market, `memory` is every
    worker's, else none can hold all experts.
    """
    async with trio.open_nursery() as nursery:
        network = Network(folder, nursery, memory)
        try:
            await _start_services(network, market, apart=apart)
            async with trio.open_nursery() as starting:
                starting.start_soon(network.start_backbone, model)
                for name in workers:
                    starting.start_soon(network.start_worker, name)
            await network.ready()
            await network.live(*workers)
            yield network
        finally:
            await network.end()
            nursery.cancel_scope.cancel()


async def _start_services(
    network: Network, market: Sequence[str], *, apart: bool
) -> None:
    net = str(network.folder / "net")
    credit = ("--opening-credit", "1000")
    relay = ("relay", "relay", "--self-signed", "--listen", "127.0.0.1:0")
    if not apart:
        await network.start(*relay, "--data", net, *credit, *market)
        return
    await network.start(*relay, "--only", "--data", net)
    service = ("--invite", network.invite, "--data", net)
    if "--price-epoch" in market:  # and what is paid for is told as often
        credit = (*credit, "--paid-every", "2")
    async with trio.open_nursery() as starting:
        starting.start_soon(network.start, "market", "market", *service, *market)
        starting.start_soon(network.start, "ledgerd", "ledgerd", *service, *credit)
