"""What runs beside a worker: its control socket and its local page.

Contract: both begin once the worker holds its key, and end with it. A page that cannot
be had is one line in the log; the worker works without.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import trio

from mobile_worker.contribute.controls import Controls
from p2pmoe.contributor.control_socket import control_server
from p2pmoe.contributor.desk import Desk
from p2pmoe.contributor.earnings import earnings_document, earnings_in
from p2pmoe.contributor.page import open_page, serve_page
from p2pmoe.contributor.page_file import PAGE_FILE
from p2pmoe.contributor.page_rules import Ask, LocalPage
from relay.pages import PageResponse

__all__ = ["Beside"]

log = logging.getLogger("p2pmoe.contributor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """folder: the worker's. page_port: None for no page. tell: told of its address."""

    folder: Path
    page_port: int | None
    tell: Callable[[str], None] = lambda _: None

    async def run(self, controls: Controls) -> None:
        """Serve both until cancelled."""
        desk = Desk(controls=controls)
        async with trio.open_nursery() as nursery:
            await nursery.start(control_server(self.folder, desk).run)
            if self.page_port is not None:
                nursery.start_soon(self._page, desk, self.page_port)

    async def _page(self, desk: Desk, port: int) -> None:
        try:
            address = open_page(self.folder / PAGE_FILE, port)
        except OSError as error:
            log.warning("no local page: %s", error.strerror or error)
            return
        desk.page_url = address.url
        page = LocalPage(
            desk=desk,
            token=address.token,
            html=_html(),
            earnings=lambda: earnings_document(earnings_in(self.folder / "receipts")),
        )

        async def answer(ask: Ask) -> PageResponse:
            if ask.path.startswith("/earnings"):  # reads files
                return await trio.to_thread.run_sync(page.answer, ask)
            return page.answer(ask)

        with address.bound:
            self.tell(address.url)
            await serve_page(address, answer)


def _html() -> bytes:
    page = resources.files("p2pmoe.contributor").joinpath("web/worker.html")
    return page.read_bytes()
