"""A million servings through real processes, each killed twice, and settled to the end.

Relay, market, ledger, backbone and four workers on loopback, the pocket model; a dozen
clients ask without end and compare each answer with a single process's. At moments
spread over the run a worker, the backbone or the ledger is killed with -9 and started
again, twice each. Then all end in order, and the ledger's folder is opened under a
clock that is days ahead, so that every grant, window and holdback ends.
"""

import contextlib
import dataclasses
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import trio
from sqlalchemy import func, select

from ledger.balances import balances
from ledger.database import Reader
from ledger.schema import filing, transfer
from ledger.schema_closing import closing
from ledger.store import Store
from p2pmoe.cli.ledger_operate import KeyAtHand
from p2pmoe.client import ApiError
from tests.support.generations import (
    PROMPTS,
    Prompt,
    moments,
    texts_of_a_single_process,
)
from tests.support.networks import WORKERS, Books, Network, network_running

__all__ = ["Run", "run_network"]

KILLED = ("ledgerd", "backbone", *WORKERS)
_N_KILLS_EACH = 2
_N_CLIENTS = 12
_LOOK_S = 2.0
_DAY_US = 86_400_000_000
Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What became of the servings."""

    receipts: int  # servings with a receipt of both signatures
    unsigned_at_kill: int  # as the last life of the backbone counts them
    accepted: int  # so too
    signed: int
    answers: int  # compared, all equal
    cut_answers: int  # whose backbone was killed
    kills: int
    vouchers: int
    keys: int
    closed: int
    released: int
    settlements: int  # distinct transfers that settle a key
    owed_keys: int  # keys with anything to settle
    trial_balance_uc: int
    pending_uc: int  # left unsettled
    seconds: float

    @property
    def differences(self) -> list[str]:
        """Name what does not agree; nothing for honest books."""
        pairs = {
            "closed keys": (self.closed, self.keys),
            "released keys": (self.released, self.keys),
            "settlements": (self.settlements, self.owed_keys),
            "left pending": (self.pending_uc, 0),
            "trial balance": (self.trial_balance_uc, 0),
            "accepted": (self.accepted, self.signed + self.unsigned_at_kill),
        }
        return [
            f"{name}: {found:,} instead of {wanted:,}"
            for name, (found, wanted) in pairs.items()
            if found != wanted
        ]


class _Clients:
    """Clients that ask and compare until told to end, and wait while there is none."""

    def __init__(self, network: Network, texts: dict[Prompt, str]) -> None:
        self.counts: Counter[str] = Counter()
        self.is_ending = False
        self.is_cut = False  # the backbone is away
        self._network = network
        self._texts = texts

    async def run(self, number: int) -> None:
        for prompt in itertools.islice(itertools.cycle(PROMPTS), number, None):
            if self.is_ending:
                return
            try:
                answer = await self._network.answer(prompt)
            except ApiError:
                self.counts["cut"] += 1
                await trio.sleep(_LOOK_S)
                continue
            if answer.text != self._texts[prompt]:
                raise AssertionError(f"another text for {prompt}: {answer.text!r}")
            self.counts["same"] += 1


def run_network(n_servings: int, say: Say, verify: Callable[[Path], None]) -> Run:
    """Run in a folder of its own under the working folder, removed after.

    `verify` looks at the ledger's folder at the end.
    """
    texts = texts_of_a_single_process()
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="run-") as folder:
        found = trio.run(_run, Path(folder), texts, n_servings, say)
        verify(Path(folder) / "net" / "ledger")
    return found


async def _run(
    folder: Path, texts: dict[Prompt, str], n_servings: int, say: Say
) -> Run:
    start = time.monotonic()
    async with network_running(folder) as network:
        clients = _Clients(network, texts)
        async with trio.open_nursery() as nursery:
            for number in range(_N_CLIENTS):
                nursery.start_soon(clients.run, number)
            n_kills = await _kill_in_between(network, n_servings, say)
            await _served(network, n_servings, say)
            clients.is_ending = True
        say("closing the books")
        books = await network.close_the_books()
    say("days go by")
    await trio.to_thread.run_sync(_let_days_pass, folder / "net")
    return _added_up(
        folder / "net" / "ledger",
        books,
        clients.counts,
        n_kills=n_kills,
        seconds=time.monotonic() - start,
    )


async def _kill_in_between(network: Network, n_servings: int, say: Say) -> int:
    rng = moments(7)
    victims = list(KILLED * _N_KILLS_EACH)
    rng.shuffle(victims)
    for number, name in enumerate(victims, 1):
        await _served(network, n_servings * number // (len(victims) + 1), say)
        await trio.sleep(rng.uniform(0.0, 1.0))
        say(f"kill -9 of {name}")
        await network.kill(name)
        await network.start(name)
        if name == "backbone":
            await network.ready()
            await network.live(*WORKERS)
    return len(victims)


async def _served(network: Network, n_servings: int, say: Say) -> None:
    """Wait until the ledger has receipts for so many servings."""
    while True:
        stored = await trio.to_thread.run_sync(_n_stored, network.ledger_folder)
        if stored >= n_servings:
            return
        say(f"{stored:,} servings with a receipt")
        await trio.sleep(_LOOK_S)


def _n_stored(ledger: Path) -> int:
    with Reader(ledger).session() as connection:
        total = connection.execute(select(func.sum(filing.c.leaves))).scalar_one()
    return int(total or 0)


def _let_days_pass(net: Path) -> None:
    """End grants, then windows and holdbacks, by a clock that runs ahead."""
    ledger = net / "ledger"
    owner = Reader(ledger).identity
    days = 0
    with contextlib.ExitStack() as stack:
        key = stack.enter_context(KeyAtHand(net / "ledger.identity", owner.ledger))
        store = Store(
            ledger,
            owner,
            sign=key.sign,
            wall_us=lambda: time.time_ns() // 1000 + days * _DAY_US,
        )
        stack.enter_context(store)
        for days in (4, 8, 40):  # noqa: B007  the clock reads it
            store.tend()


def _added_up(
    ledger: Path, books: Books, counts: Counter[str], *, n_kills: int, seconds: float
) -> Run:
    with Reader(ledger).session() as connection:

        def number(statement: object) -> int:
            return int(connection.execute(statement).scalar_one() or 0)

        lines = balances(connection)
        n = func.count()
        return Run(
            receipts=number(select(func.sum(filing.c.leaves))),
            unsigned_at_kill=books.unsigned,
            accepted=books.accepted,
            signed=books.signed,
            answers=counts["same"],
            cut_answers=counts["cut"],
            kills=n_kills,
            vouchers=number(select(n).select_from(filing)),
            keys=number(select(func.count(filing.c.voucher_id.distinct()))),
            closed=number(select(n).select_from(closing)),
            released=number(select(n).where(closing.c.state == "released")),
            settlements=number(select(n).where(transfer.c.code == "settle")),
            owed_keys=number(select(n).where(closing.c.net_uc > 0)),
            trial_balance_uc=sum(line.balance_uc for line in lines),
            pending_uc=sum(
                line.balance_uc for line in lines if line.kind == "worker_pending"
            ),
            seconds=seconds,
        )
