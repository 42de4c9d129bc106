"""The status page in a real browser: what it shows, how it reads, what it refuses."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

from p2pmoe.demo.network import raise_network
from p2pmoe.local_network.processes import Stage
from relay import RelayConfig, SelfSigned, serve
from tests.relay.test_dial import authority_files
from tests.support.browser import LOW_CONTRAST, Browser, Page, browser
from tests.support.fronts import front
from tests.support.ports import reserved_port
from tests.support.relays import plain_config, wall_us

LIVE = "document.getElementById('state').classList.contains('live')"
SIZES = [(1280, 800), (768, 1024), (390, 844), (320, 640)]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


def model(identity: str, name: str, **changes: object) -> dict[str, object]:
    values: dict[str, object] = {
        "id": identity,
        "name": name,
        "architecture": "test-moe",
        "backbone": "0badcafe",
        "n_layers": 2,
        "n_experts": 7,
        "n_bytes": 7_000_000_000,
        "n_ready": 5,
        "n_replicas": 9,
        "n_below_floor": 0,
        "overhead_bytes": 4_000_000_000,
        "n_at_hand": 1,
        "n_workers": 2,
        "has_disk": True,
        "tokens_s": 12.5,
        "price_uc": 100,
        "rows_a_token": 8,
    }
    return values | changes


def network() -> dict[str, object]:
    """Two layers of four: 2 copies, 1, none; the backbone has one; one is no expert."""
    return {
        "network": {"id": "7c1f9a20"},
        "workers": {
            "n": 2,
            "n_leaving": 0,
            "n_unlisted": 0,
            "classes": {"hub": 1, "laptop": 0, "phone": 1, "browser": 0},
            "memory_bytes": 9_000_000_000,
            "listed": [
                ["aaaa0001", "hub", 5, 8_000_000_000, False],
                ["aaaa0002", "phone", 4, 1_000_000_000, True],
            ],
        },
        "models": [model("one", "small-model")],
        "grids": {
            "one": {
                "layers": [3, 4],
                "width": 4,
                "copies": ["cbaA", "ddf."],
                "use": ["5901", "555."],
            }
        },
    }


class Served:
    """A relay in a thread of its own that shows `sections`, which a test may change."""

    def __init__(self, config: RelayConfig) -> None:
        self.sections = network()
        self._config = config
        self._up = threading.Event()
        self._scope = trio.CancelScope()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            with self._scope:
                start = partial(
                    serve, self._config, wall_us=wall_us, status=lambda: self.sections
                )
                running = await nursery.start(start)
                self.port = running.port
                self._token = trio.lowlevel.current_trio_token()
                self._up.set()
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(30), "the relay does not start"

    def stop(self) -> None:
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join(30)


@contextlib.contextmanager
def served(**changes: object) -> Iterator[Served]:
    relay = Served(plain_config(**changes))
    relay.start()
    try:
        yield relay
    finally:
        relay.stop()


def text_of(page: Page, name: str) -> str:
    text = page.evaluate(f"document.getElementById({name!r}).textContent")
    return str(text).replace("\N{NO-BREAK SPACE}", " ")


def pixel(page: Page, row: int, column: int) -> list[int]:
    """The colour in the middle of a square of the first grid."""
    return page.evaluate(
        "(() => {"
        " const canvas = document.querySelector('canvas.cells'), size = 24;"
        " const ratio = devicePixelRatio;"
        f" const x = ({column} * size + 9) * ratio, y = ({row} * size + 9) * ratio;"
        " const seen = canvas.getContext('2d').getImageData(x, y, 1, 1).data;"
        " return [...seen].slice(0, 3);"
        "})()"
    )


def variable(page: Page, name: str) -> list[int]:
    """A colour of the style sheet."""
    value = page.evaluate(
        f"getComputedStyle(document.documentElement).getPropertyValue('--{name}')"
    )
    return list(bytes.fromhex(value.strip().removeprefix("#")))


def test_it_says_in_words_what_the_network_does(chromium: Browser) -> None:
    with served() as relay:
        page = chromium.open(relay.url)
        page.until(LIVE)
        headline = text_of(page, "headline")
        assert headline == "2 machines hold 71.4 % of small-model together"
        assert text_of(page, "speed") == "12.5"
        assert text_of(page, "ready") == "85.7 %"
        assert text_of(page, "workers-note") == "1 hub, 1 phone lending 9 GB"
        assert text_of(page, "price") == "0.8"
        page.until("document.getElementById('frames-s').textContent !== '...'")
        body = page.evaluate("document.body.innerText").replace("\xa0", " ")
        assert "1 expert is read from the backbone's disk when needed" in body
        assert "Phone, leaving" in body
        assert page.evaluate("document.title") == "12.5 tokens/s · network status"
        assert page.messages == []


def test_squares_have_the_colour_of_their_live_replicas(chromium: Browser) -> None:
    with served() as relay:
        page = chromium.open(relay.url, reduced_motion=True)
        page.until(LIVE)
        expected = [["c2", "c1", "none", "home"], ["c3", "c3", "c4"]]
        for row, kinds in enumerate(expected):
            for column, kind in enumerate(kinds):
                assert pixel(page, row, column) == variable(page, kind), kind
        assert pixel(page, 1, 3) == [0, 0, 0]  # nothing is drawn there
        grids = {"one": dict(relay.sections["grids"]["one"], copies=["ccaA", "ddf."])}
        relay.sections = relay.sections | {"grids": grids}
        wanted = variable(page, "c2")
        page.until(
            "document.querySelector('.legend').textContent.includes('2 copies 2')"
        )
        assert pixel(page, 0, 1) == wanted
        relay.sections = relay.sections | {
            "models": [model("one", "small-model", has_disk=False)]
        }
        page.until("document.querySelector('.verdict.bad') !== null")
        assert pixel(page, 0, 2) == variable(page, "missing")


def test_the_grid_is_read_with_the_keyboard_alone(chromium: Browser) -> None:
    with served() as relay:
        page = chromium.open(relay.url)
        page.until(LIVE)
        seen = []
        for _ in range(4):
            page.key("Tab")
            focus = "document.activeElement"
            seen.append(page.evaluate(f"{focus}.textContent || {focus}.tagName"))
        assert seen == ["Skip to the models", "Copies", "Use", "CANVAS"]
        says = "document.querySelector('.says').textContent"
        assert page.evaluate(says) == (
            "Layer 3, expert 0: 2\xa0copies ready, used as much as others"
        )
        page.key("ArrowRight")
        assert "Layer 3, expert 1: 1\xa0copy ready, used 16" in page.evaluate(says)
        page.key("ArrowRight")
        assert "on the backbone's disk alone, not used" in page.evaluate(says)
        page.key("End")
        assert "in the backbone's memory alone" in page.evaluate(says)
        page.key("ArrowDown")
        assert "this layer has no such expert" in page.evaluate(says)
        page.evaluate("document.querySelectorAll('.choice button')[1].focus()")
        page.key("Enter")
        assert (
            page.evaluate("document.querySelector('[aria-pressed=true]').textContent")
            == "Use"
        )
        assert pixel(page, 0, 1) == variable(page, "u9")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_word_has_contrast_and_every_width_fits(
    chromium: Browser, dark: bool
) -> None:
    with served() as relay:
        for width, height in SIZES:
            page = chromium.open(relay.url, width=width, height=height, dark=dark)
            page.until(LIVE)
            page.evaluate("document.querySelector('details').open = true")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(LOW_CONTRAST) == []
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(14, 19, 22)" if dark else "rgb(246, 245, 241)")


def test_names_of_strangers_are_text_and_nothing_else_runs(chromium: Browser) -> None:
    evil = "<img src=x onerror=hacked=1></h3><script>hacked=1</script>"
    with served() as relay:
        relay.sections["models"] = [model("one", evil, architecture="\u202e" + evil)]
        page = chromium.open(relay.url)
        page.until(LIVE)
        assert page.evaluate("document.querySelector('article h3').textContent") == evil
        assert page.evaluate("document.querySelector('article img')") is None
        assert page.evaluate("typeof hacked") == "undefined"
        assert page.messages == []
        page.evaluate(
            "(() => { const script = document.createElement('script');"
            " try { script.textContent = 'hacked = 1'; document.head.append(script); }"
            " catch (error) {} })()"
        )
        assert page.evaluate("typeof hacked") == "undefined"
        fetched = page.evaluate(
            "fetch('http://127.0.0.1:1/').then(() => 'went out', () => 'blocked')"
        )
        assert fetched == "blocked"
        page.heard("Content Security Policy")
        relay.sections["models"] = [model("one", "W" * 80, architecture="W" * 80)]
        page = chromium.open(relay.url, width=320, height=640)
        page.until(LIVE)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_relay_that_comes_back_is_found_again(chromium: Browser) -> None:
    says = "document.getElementById('state-text').textContent"
    with reserved_port() as port:
        with served(port=port) as relay:
            page = chromium.open(relay.url)
            page.until(LIVE)
        assert text_of(page, "headline").startswith("2 machines")
        page.until(f"!({LIVE}) && {says}.includes('trying again')")
        with served(port=port) as again:
            again.sections["models"] = []
            again.sections["grids"] = {}
            page.until(LIVE)
            assert text_of(page, "headline") == "2 workers are waiting for a model"


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_it_is_live_through_a_front(name: str, chromium: Browser) -> None:
    with served() as relay:
        with front(name, {"127.0.0.1:8443": f"127.0.0.1:{relay.port}"}) as running:
            page = chromium.open(f"https://localhost:{running.port}/")
            page.until(LIVE)
            assert text_of(page, "speed") == "12.5"
            assert page.messages == []


def test_it_is_live_over_the_relays_own_tls(chromium: Browser, tmp_path: Path) -> None:
    files = authority_files(tmp_path)
    with served(tls=files, behind_front=False) as relay:
        page = chromium.open(f"https://127.0.0.1:{relay.port}/")
        page.until(LIVE)
        assert page.messages == []
    with served(tls=SelfSigned(), behind_front=False) as relay:
        page = chromium.open(relay.url)  # no browser knows its certificate's kind
        page.until(LIVE)
        assert page.messages == []


def test_a_network_without_market_workers_or_script(chromium: Browser) -> None:
    with served() as relay:
        relay.sections = {"network": {"id": "7c1f9a20"}}
        page = chromium.open(relay.url)
        page.until(LIVE)
        assert text_of(page, "headline") == "The relay is up"
        assert page.evaluate("document.getElementById('tiles').hidden")
        nobody = {"n": 0, "n_leaving": 0, "n_unlisted": 0, "memory_bytes": 0}
        relay.sections = network() | {
            "workers": {**nobody, "classes": {}, "listed": []},
            "models": [],
            "grids": {},
        }
        page.until("document.getElementById('tiles').hidden === false")
        assert "waits for its first model" in text_of(page, "headline")
        assert "p2pmoe serve MODEL" in page.evaluate("document.body.innerText")
        assert page.messages == []
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.call("Page.reload")
        page.until("document.body.innerText.includes('needs JavaScript')")


def test_it_stands_still_for_who_asks_for_it(chromium: Browser) -> None:
    with served() as relay:
        page = chromium.open(relay.url, reduced_motion=True)
        page.until(LIVE)
        duration = "getComputedStyle(document.querySelector('main')).transitionDuration"
        assert page.evaluate(duration) == "0s"
        assert page.evaluate("document.getAnimations().length") == 0


def test_what_has_a_name_for_a_screen_reader(chromium: Browser) -> None:
    with served() as relay:
        page = chromium.open(relay.url)
        page.until(LIVE)
        tree = page.call("Accessibility.getFullAXTree")["nodes"]
        named = {
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree
            if not node["ignored"]
        }
    roles = {role for role, _ in named}
    assert {"main", "heading", "table", "columnheader", "status", "article"} <= roles
    assert ("table", "Workers") in named
    assert ("region", "Models") in named
    assert any(role == "image" and "Experts of small-model" in n for role, n in named)
    assert not [role for role, name in named if role == "button" and not name]


async def keep_asking(url: str) -> None:
    asked = {"model": "p2pmoe-pocket", "prompt": "It was a dark", "max_tokens": 48}
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=120) as client:
        while True:
            (await client.post("/v1/completions", json=asked)).raise_for_status()


def watch(chromium: Browser, url: str, lose: Callable[[], None]) -> Page:
    """See four workers and a speed; lose the hub and see three."""
    page = chromium.open(url)
    page.until("document.getElementById('workers-n').textContent === '4'")
    page.until("document.getElementById('ready').textContent === '100\\xa0%'")
    page.until("Number(document.getElementById('speed').textContent) > 0")
    page.until("Number(document.getElementById('frames-s').textContent) > 0")
    squares = "document.querySelector('canvas.cells').getAttribute('aria-label')"
    assert "p2pmoe-pocket, 7 layers by 32 experts" in page.evaluate(squares)
    lose()
    page.until("document.getElementById('workers-n').textContent === '3'")
    page.until("document.getElementById('roles').innerText.includes('hub') === false")
    return page


@pytest.mark.slow
def test_a_real_network_is_seen_at_work(chromium: Browser, tmp_path: Path) -> None:
    async def main() -> Page:
        stage = Stage(tmp_path)
        try:
            network = await raise_network(stage, "42M", lambda *_: None)
            _, port = (await network.relay.ready(10))["listen"]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(keep_asking, network.api.url)
                page = await trio.to_thread.run_sync(
                    watch,
                    chromium,
                    f"http://127.0.0.1:{port}/",
                    partial(os.kill, network.workers[0].pid, signal.SIGKILL),
                )
                nursery.cancel_scope.cancel()
            await network.api.aclose()
        finally:
            with trio.CancelScope(shield=True):
                await stage.stop_all()
        return page

    assert trio.run(main).messages == []
