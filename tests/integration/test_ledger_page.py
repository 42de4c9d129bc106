"""A contributor's page in a real browser: own account, receipts, and nobody else's."""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from ledger.store import Store
from p2pmoe.ledgerd import view as module
from p2pmoe.ledgerd.login import LOGIN_DOMAIN, Logins, login_body
from p2pmoe.ledgerd.view import LedgerView
from relay import serve
from tests.support.browser import LOW_CONTRAST, Browser, Page, browser
from tests.support.ledger_world import DAY_US, Party, WorldClock
from tests.support.paid_world import PaidWorld
from tests.support.relays import plain_config, wall_us

SECRET = b"s" * 32
LOADED = "document.getElementById('statement').rows.length > 0"
SIZES = [(1280, 800), (390, 844), (320, 640)]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


class Shown:
    """A world's ledger on a relay's port, in a thread."""

    def __init__(self, world: PaidWorld, store: Store) -> None:
        self.world = world
        self.store = store
        self.url = ""
        self._up = threading.Event()
        self._stop = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(target=trio.run, args=(self._run,))

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        view = LedgerView(WorldClock(self.world), secret=SECRET)
        view.attach(self.store)
        async with trio.open_nursery() as nursery:
            relay = await nursery.start(
                functools.partial(
                    serve, plain_config(), wall_us=wall_us, pages=view.pages
                )
            )
            host, port = relay.addresses[0]
            self.url = f"http://{host}:{port}/ledger"
            self._up.set()
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(30)

    def stop(self) -> None:
        if self._token is not None:
            self._token.run_sync_soon(self._stop.set)
        self._thread.join(30)

    def link(self, party: Party) -> str:
        """What `p2pmoe receipts login` would print for a worker."""
        owner = self.store.owner
        logins = Logins(
            network=owner.network,
            ledger=owner.ledger,
            secret=SECRET,
            wall_us=lambda: self.world.now_us,
            random=os.urandom,
        )
        challenge = logins.challenge()
        body = login_body(owner.network, owner.ledger, challenge)
        session = logins.open(party.id, challenge, party.sign(LOGIN_DOMAIN + body))
        return f"{self.url}#session={session}"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Three workers; the first has receipts in several states."""
    world = PaidWorld(tmp_path_factory.mktemp("paid") / "ledger")
    with world.open(world.path) as store, contextlib.ExitStack() as stack:
        for n in range(3):
            world.now_us += DAY_US
            world.serve(store, world.workers[0], 5 + n)
        tab = world.tab(
            store.grant(world.order(worker=world.workers[0])).result(60),
            worker=world.workers[0],
            tab=b"tab-open",
        )
        tab.file(store, 0, 1)
        forged = tab.forged()
        store.file(forged, b"", world.workers[0].id).result(60)
        running = Shown(world, store)
        running.start()
        stack.callback(running.stop)
        yield running


def show(page: Page, period: str) -> None:
    """Choose a period and wait for what it holds, whatever was shown before."""
    page.evaluate(
        f"document.getElementById('period').value = {period!r},"
        "document.querySelector('#receipts tbody').replaceChildren(),"
        "document.getElementById('none').hidden = true,"
        "document.getElementById('choice').requestSubmit()"
    )
    page.until(
        "document.querySelector('#receipts tbody').rows.length > 0"
        " || !document.getElementById('none').hidden"
        " || !document.getElementById('trouble').hidden"
    )


def text_of(page: Page, name: str) -> str:
    return str(page.evaluate(f"document.getElementById({name!r}).innerText"))


def test_without_a_link_it_says_how_to_get_one(chromium: Browser, shown: Shown) -> None:
    page = chromium.open(shown.url)
    page.until("!document.getElementById('login').hidden")
    assert "p2pmoe receipts login" in text_of(page, "login")
    assert page.evaluate("document.getElementById('account').hidden")
    assert page.messages == []


def test_a_worker_sees_balance_statement_and_every_receipt(
    chromium: Browser, shown: Shown
) -> None:
    worker = shown.world.workers[0]
    page = chromium.open(shown.link(worker))
    page.until(LOADED)
    assert page.evaluate("location.hash") == ""  # no secret stays in the address
    show(page, "2026-12")
    assert worker.id.hex() in text_of(page, "who")
    assert page.evaluate("document.querySelectorAll('#receipts tbody tr').length") == 5
    states = page.evaluate(
        "[...document.querySelectorAll('#receipts .state')].map(s => s.textContent)"
    )
    assert sorted(states) == ["pending"] * 4 + ["rejected"]
    assert "its tab is not closed" in text_of(page, "receipts")
    assert "refused" in text_of(page, "receipts")
    assert "Closing" in text_of(page, "statement")
    show(page, "2026-11")
    assert page.evaluate("document.querySelectorAll('#receipts tbody tr').length") == 1
    show(page, "2026-10")
    assert not page.evaluate("document.getElementById('none').hidden")
    assert page.messages == []


def test_more_receipts_come_when_asked_for(
    chromium: Browser, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_RECEIPTS", 3)
    page = chromium.open(shown.link(shown.world.workers[0]))
    page.until(LOADED)
    show(page, "2026-12")
    page.until("!document.getElementById('more').hidden")
    page.evaluate("document.getElementById('more').click()")
    page.until("document.querySelectorAll('#receipts tbody tr').length === 5")
    assert page.evaluate("document.getElementById('more').hidden")


def test_what_cannot_be_shown_is_said(chromium: Browser, shown: Shown) -> None:
    page = chromium.open(f"{shown.url}#session=nonsense")
    page.until("!document.getElementById('login').hidden")
    page.until("!document.getElementById('trouble').hidden")
    assert "sign a new challenge" in text_of(page, "trouble")
    page = chromium.open(shown.link(shown.world.workers[0]))
    page.until(LOADED)
    show(page, "2020..2026")
    page.until("!document.getElementById('trouble').hidden")
    assert "31 days" in text_of(page, "trouble")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_word_has_contrast_and_every_width_fits(
    chromium: Browser, shown: Shown, dark: bool, tmp_path: Path
) -> None:
    for width, height in SIZES:
        page = chromium.open(
            shown.link(shown.world.workers[0]), width=width, height=height, dark=dark
        )
        page.until(LOADED)
        show(page, "2026-12")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(LOW_CONTRAST) == []
        page.screenshot(tmp_path / f"{width}.png")
