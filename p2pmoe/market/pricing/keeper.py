"""The waiting side of prices: epochs by the clock, files, papers to the ledger.

When an epoch begins the desk looks at all prices; what it drew up is written, and only
then told. A disk that refuses leaves the prices as they were, and is tried again in ten
seconds. What changes in between (paid demand, drops) is written with the next epoch,
new models within two seconds.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import trio

from mobile_worker.clock import Clock
from mobile_worker.messages.audits import Booked, Paid
from p2pmoe.market.book import Book
from p2pmoe.market.outgoing import Send
from p2pmoe.market.pricing.memory import PRICES_FILE, encode_models
from p2pmoe.market.pricing.papers import (
    Papers,
    read_papers,
    remove_paper,
    write_paper,
)
from p2pmoe.market.pricing.standby import SignedPaper
from p2pmoe.market.remembered import write_remembered
from relay.keys import PeerId

__all__ = ["PriceKeeper"]

_PAPERS = "standby"
_LOG = logging.getLogger("p2pmoe.market")
_LOOK_S = 2.0  # between looks at clock and versions
_AGAIN_S = 10.0  # after a disk that refused

SendAll = Callable[[Iterable[Send]], None]


class PriceKeeper:
    """Turns the epochs of a market's book. `folder` None keeps nothing."""

    def __init__(
        self,
        book: Book,
        clock: Clock,
        send_all: SendAll,
        *,
        folder: Path | None,
        ledger: PeerId | None,
    ) -> None:
        """Begin; `ledger` is who is believed what was paid, and books papers."""
        self._book = book
        self._clock = clock
        self._send_all = send_all
        self._folder = folder
        self._ledger = ledger
        self._papers = Papers()
        self._done: list[bytes] = []  # papers whose files may go
        self._drawn: list[SignedPaper] = []  # and not written yet
        self._is_drawn = False
        self._write_at = float("-inf")
        self._written = 0
        self._n_opened = 0
        book.prices.synchronise(clock.wall_us())

    async def run(self) -> None:
        """Keep prices until cancelled; write the file once more at the end."""
        if self._folder is not None:
            found = await trio.to_thread.run_sync(read_papers, self._folder / _PAPERS)
            self._papers = Papers(found)
        try:
            while True:
                await self._look()
                await trio.sleep(_LOOK_S)
        finally:
            desk = self._book.prices
            if (desk.version, desk.n_opened) != (self._written, self._n_opened):
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                    await self._write([])

    def said(self, peer: PeerId, message: Paid | Booked) -> None:
        """Take what the network's ledger says; nobody else is believed."""
        if peer != self._ledger:
            return
        match message:
            case Paid():
                self._book.prices.paid(message)
            case Booked():
                now = self._clock.monotonic()
                if self._papers.booked(message.name, message.error, now):
                    self._done.append(message.name)

    async def _look(self) -> None:
        desk = self._book.prices
        now, wall_us = self._clock.monotonic(), self._clock.wall_us()
        drawn = desk.turn(now, wall_us)
        self._drawn += drawn or []
        self._is_drawn |= drawn is not None or desk.n_opened != self._n_opened
        if self._is_drawn and now >= self._write_at:
            await self._tell()
        self._done += self._papers.expire(wall_us)
        if self._ledger is not None:
            ledger = self._ledger
            due = self._papers.due(self._clock.monotonic())
            self._send_all([Send(ledger, standby) for standby in due])
        await self._clear()

    async def _tell(self) -> None:
        """Write what was drawn up, then tell it."""
        self._is_drawn = False
        papers = list(self._drawn)
        if not await self._write(papers):
            self._is_drawn = True
            self._write_at = self._clock.monotonic() + _AGAIN_S
            return
        del self._drawn[: len(papers)]
        for paper in papers:
            self._done += self._papers.add(paper)
        self._send_all(self._book.adopt_prices(self._clock.monotonic()))

    async def _write(self, papers: list[SignedPaper]) -> bool:
        """Make prices and papers durable; say whether that was done."""
        desk, folder = self._book.prices, self._folder
        written = desk.version, desk.n_opened
        if folder is not None:
            text = encode_models(desk.models)
            try:
                await trio.to_thread.run_sync(_write_all, folder, text, papers)
            except OSError as error:
                _LOG.warning(
                    "prices stay as they are: cannot write %s: %s", folder, error
                )
                return False
        self._written, self._n_opened = written
        return True

    async def _clear(self) -> None:
        done, self._done = self._done, []
        if self._folder is not None and done:
            folder = self._folder / _PAPERS
            for name in done:
                await trio.to_thread.run_sync(remove_paper, folder, name)


def _write_all(folder: Path, text: str, papers: list[SignedPaper]) -> None:
    for paper in papers:
        write_paper(folder / _PAPERS, paper)
    write_remembered(folder / PRICES_FILE, text)
