"""A worker's page in a real browser: every state, steered, and locked without a key."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from ledger.claims import FiledStatus
from ledger.periods import parse_period
from mobile_worker.contribute.states import Facts, State, Use
from mobile_worker.governor.pause import Cause, Pause
from mobile_worker.governor.readings import Power, Readings
from mobile_worker.servings.own_copy import OwnCopy, OwnReceipt
from p2pmoe.contributor.beside import Beside
from tests.support.browser import LOW_CONTRAST, Browser, Page, browser
from tests.support.ledger_world import paper_tab
from tests.support.worker_controls import worker_controls

pytestmark = pytest.mark.slow

SIZES = [(1280, 800), (360, 740)]
LOADED = "document.getElementById('state').textContent !== ''"
SHOTS = os.environ.get("P2PMOE_SHOTS")  # a folder: the pages are looked at there


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


class Shown:
    """A worker's page over facts that a test sets, in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.controls, self.governor, _ = worker_controls()
        self.url = ""
        self._up = threading.Event()
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(target=trio.run, args=(self._run,))

    @property
    def facts(self) -> Facts:
        return self.governor.facts

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()

        def tell(url: str) -> None:
            self.url = url
            self._up.set()

        with self._scope:
            beside = Beside(folder=self.folder, page_port=0, tell=tell)
            await beside.run(self.controls)

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(30)

    def stop(self) -> None:
        if self._token is not None:
            self._token.run_sync_soon(self._scope.cancel)
        self._thread.join(30)

    def update(self) -> None:
        self.controls.figures.update(0.0)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("worker")
    tab, copy = paper_tab(), OwnCopy(folder / "receipts")
    for n in range(4):
        rejected = n == 3
        copy.add(
            OwnReceipt(
                signed=tab.next(2 * n, 2 * n + 1)[0],
                status=FiledStatus.REJECTED if rejected else FiledStatus.STORED,
                reason="grant" if rejected else "",
                answered_us=parse_period(f"2026-11-0{n + 1}").start_us,
            )
        )
    running = Shown(folder)
    working(running.facts)
    running.update()
    running.start()
    yield running
    running.stop()


def working(facts: Facts) -> None:
    facts.kernel = "native/avx2"
    facts.relay_detail = "da24f220"
    facts.n_leased = facts.n_held = 12
    facts.served, facts.served_last_minute, facts.served_today = 9_000, 412, 20_417
    facts.signed_uc, facts.earned_today_uc = 1_250_000, 2_871_300
    facts.accepted, facts.signed = 9_000, 8_990
    facts.waiting_to_file = 2
    facts.rejected, facts.rejected_by_reason = 1, {"grant": 1}
    facts.idle_s = 1.0
    facts.use = Use(
        cpus=0.7,
        max_cpus=1,
        memory_bytes=96 << 20,
        max_memory_bytes=512 << 20,
        disk_bytes=1900 << 20,
        max_disk_bytes=2048 << 20,
        up_bytes_s=125_000.0,
        max_up_bytes_s=625_000.0,
        day_bytes=400 << 20,
        max_day_bytes=1000 << 20,
    )
    facts.readings = Readings(power=Power.MAINS, battery_percent=98, temperature_c=52.0)


STATES: dict[str, dict[str, object]] = {
    "serving": {},
    "ready": {"idle_s": 60.0},
    "fetching": {"n_held": 3, "fetched_bytes": 41 << 20, "leased_bytes": 96 << 20},
    "paused_battery": {
        "pauses": (
            Pause(
                cause=Cause.BATTERY,
                reason="battery 43 % < 60 %",
                ends_when="it is charged to 65 % or on mains",
            ),
            Pause(cause=Cause.HOT, reason="91 °C > 85 °C", ends_when="it is cooler"),
        )
    },
    "unreachable": {"relay_is_up": False, "relay_detail": "timed out after 20 s"},
    "kicked": {"kicked": "2 wrong answers in 3 checks", "kicked_ends": "never"},
    "draining": {"draining": "stopped by its user"},
}


def opened(chromium: Browser, shown: Shown, **how: object) -> Page:
    page = chromium.open(shown.url, **how)
    page.until(LOADED)
    page.until("document.getElementById('limits').elements.length > 5")
    return page


def text(page: Page, name: str) -> str:
    return page.evaluate(f"document.getElementById({name!r}).textContent")


def click(page: Page, name: str) -> None:
    page.evaluate(f"document.getElementById({name!r}).click()")


@pytest.mark.parametrize("state", STATES)
def test_every_state_is_told_and_fits(chromium, shown, monkeypatch, state) -> None:
    for name, value in STATES[state].items():
        monkeypatch.setattr(shown.facts, name, value)
    shown.update()
    for dark, (width, height) in zip((False, True), SIZES, strict=True):
        page = opened(chromium, shown, width=width, height=height, dark=dark)
        if SHOTS:
            page.screenshot(Path(SHOTS) / f"{state}-{width}.png")
        assert text(page, "state") == state.replace("_", " ")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(LOW_CONTRAST) == []
        small = (
            "[...document.querySelectorAll('button, input, select')]"
            ".filter((e) => e.checkVisibility() && e.offsetHeight < 44).length"
        )
        assert page.evaluate(small) == 0
        assert page.messages == []
    monkeypatch.undo()
    shown.update()


def test_it_says_what_the_terminal_says_and_keeps_no_key_in_sight(chromium, shown):
    page = opened(chromium, shown)
    assert page.evaluate("location.href").endswith("/")  # no fragment left
    lines = page.evaluate(
        "[...document.querySelectorAll('#lines dd')].map((e) => e.textContent)"
    )
    assert "412 expert calls in the last minute, 20417 today" in lines[1]
    assert "1 voucher rejected by it (1 grant)" in lines[2]
    page.until("document.querySelector('#days tbody').rows.length === 3")
    assert "Rejected vouchers: 1 grant" in text(page, "sums")
    page.evaluate("window.isOld = true")
    page.call("Page.reload")
    page.until(f"!window.isOld && {LOADED}")  # it remembers the key for this tab


def test_a_person_pauses_resumes_and_sets_limits(chromium, shown):
    page = opened(chromium, shown)
    click(page, "pause")
    page.until("document.getElementById('state').textContent === 'paused user'")
    assert shown.governor.wishes[-1] == ("pause", 1800.0)
    click(page, "resume")
    page.until("document.getElementById('state').textContent === 'serving'")
    field = "document.querySelector('[name=cpus]')"
    page.evaluate(
        f"{field}.value = '3', {field}.dispatchEvent(new Event('input', "
        "{bubbles: true}))"
    )
    click(page, "save")
    page.until("document.getElementById('said').textContent === 'Saved.'")
    assert shown.governor.limits.cpus == 3
    page.evaluate(
        f"{field}.value = 'many', {field}.dispatchEvent(new Event('input', "
        "{bubbles: true}))"
    )
    click(page, "save")
    page.until("!document.getElementById('trouble').hidden")
    assert "cpus cannot be 'many'" in text(page, "trouble")
    click(page, "drain")
    page.until("document.getElementById('said').textContent !== ''")
    assert shown.controls.stop.is_set()


def test_without_the_key_it_tells_how_to_get_it(chromium, shown):
    for url in (shown.url.partition("#")[0], shown.url[:-3] + "xyz"):
        page = chromium.open("about:blank")
        page = chromium.open(url)
        page.evaluate("sessionStorage.clear()")
        page.until("!document.getElementById('locked').hidden")
        assert page.evaluate("document.getElementById('open').hidden")
        assert State.SERVING not in page.evaluate("document.body.innerText")
