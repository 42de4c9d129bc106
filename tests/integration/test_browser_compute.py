"""The page's compute worker in a real Chromium: its modules, its files, its answers."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import mobile_worker
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST
from tests.support.browser import Browser, Page, browser
from tests.support.golden import golden

PACKAGE = Path(mobile_worker.__file__).parent
PARTS = ("gate", "up", "down", "gate_bias", "up_bias", "down_bias")
CASES = [
    case
    for case in golden("experts.json")
    if case["formats"] in (["F32"] * 3, ["BF16"] * 3)
]
NUMBERS = {"F32": 0, "BF16": 30}
POLICY = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'"
PAGE = b"<!doctype html><title>compute</title><script src=page.js type=module></script>"
SCRIPT = b"""
import { choose_module } from "/browser/kernel.js";
const load = async (flavour) =>
  new Uint8Array(await (await fetch(`/wasm/kernel-${flavour}.wasm`)).arrayBuffer());
const to_hex = (raw) =>
  Array.from(raw, (byte) => byte.toString(16).padStart(2, "0")).join("");
const from_hex = (text) =>
  Uint8Array.from(text.match(/../g), (each) => parseInt(each, 16));
window.floats = (text) => new Float32Array(from_hex(text).buffer);
window.start = async (forced) => {
  const { flavour, module } = await choose_module(load, forced);
  window.worker?.terminate();
  window.worker = new Worker("/browser/compute_worker.js", { type: "module" });
  const told = await ask({
    ask: "start", module, n_bytes: 32 << 20, slot_bytes: 1 << 18, store_bytes: 1 << 20,
    index: 0, n_workers: 1, rate_ms: 20,
  });
  return { ...told, flavour };
};
window.ask = (what) => new Promise((resolve, reject) => {
  let n_came = 0;
  worker.onerror = ({ message }) => reject(new Error(message));
  worker.onmessage = ({ data }) => {
    if (data.came) { n_came += data.came; return; }
    for (const [key, value] of Object.entries(data)) {
      if (value instanceof Uint8Array) data[key] = to_hex(value);
    }
    resolve({ ...data, n_came });
  };
  worker.postMessage({ id: 1, ...what });
});
window.is_ready = true;
"""


def shard_of(case: dict) -> bytes:
    return bytes.fromhex("".join(case.get(part, "") for part in PARTS))


class Site(ThreadingHTTPServer):
    """The package's modules, a page, and shards that `spoilt` changes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.shards = {hashlib.sha256(s).hexdigest(): s for s in map(shard_of, CASES)}
        self.asked: list[str] = []
        self.is_spoilt = False

    def content(self, path: str) -> bytes | None:
        folder, _, name = path.strip("/").rpartition("/")
        match folder:
            case "browser":
                return (PACKAGE / "browser" / name).read_bytes()
            case "wasm":
                return (PACKAGE / "arithmetic" / "wasm" / name).read_bytes()
            case "blob":
                raw = self.shards[name]
                return b"?" + raw[1:] if self.is_spoilt else raw
        return {"page.js": SCRIPT, "": PAGE, "favicon.ico": b""}.get(name)


class Handler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        content = self.server.content(self.path)
        status, told = 200 if content is not None else 404, self.headers.get("Range")
        if content is not None and told:
            first, last = map(int, told.removeprefix("bytes=").split("-"))
            self.server.asked.append(told)
            content, status = content[first : last + 1], 206
        self.send_response(status)
        kind = "text/javascript" if self.path.endswith(".js") else "text/html"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, form: str, *values: object) -> None:
        """Log nothing."""


@contextmanager
def site() -> Iterator[Site]:
    with Site() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


def opened(chromium: Browser, running: Site) -> Page:
    page = chromium.open(f"http://localhost:{running.server_address[1]}/")
    page.until("window.is_ready")
    return page


def load(page: Page, case: dict) -> dict:
    shard = shard_of(case)
    what = {
        "ask": "load",
        "name": hashlib.sha256(shard).hexdigest(),
        "n_bytes": len(shard),
        "layout": {
            "formats": [NUMBERS[name] for name in case["formats"]],
            "kind": int(case["activation"] == "SWIGLU_OAI"),
            "biased": "gate_bias" in case,
            **{key: case[key] for key in ("n_embd", "n_ff", "alpha", "limit")},
        },
    }
    return dict(page.evaluate(f"ask({json.dumps(what)})"))


def compute(page: Page, case: dict) -> dict:
    call = {"name": hashlib.sha256(shard_of(case)).hexdigest(), "rows": [0, 1]}
    dispatch = {"n_rows": 2, "n_embd": 64, "coded": None, "profile": 1, "calls": [call]}
    said = json.dumps(dispatch)[:-1]
    floats = f"floats({case['x']!r})"
    text = f"ask({{ask: 'compute', dispatch: {said}, floats: {floats}}}}})"
    return dict(page.evaluate(text))


@pytest.mark.parametrize("forced", ["plain", None])
def test_golden_experts_from_the_relays_shards(
    chromium: Browser, forced: str | None
) -> None:
    with site() as running:
        page = opened(chromium, running)
        started = page.evaluate(f"start({json.dumps(forced)})")
        assert started["flavour"] == (forced or "relaxed")
        assert started["self_test"] == SELF_TEST_DIGEST.hex()
        assert started["rate_macs_s"] > 0
        for case in CASES:
            told = load(page, case)
            assert "kind" not in told, told
            assert told["n_came"] == len(shard_of(case))
            assert compute(page, case)["results"] == case["R16"]
        assert page.messages == []


def test_shards_outlive_the_page_and_wrong_ones_are_not_kept(chromium: Browser) -> None:
    with site() as running:
        page = opened(chromium, running)
        page.evaluate("start()")
        running.is_spoilt = True
        assert load(page, CASES[0])["kind"] == "ShardCorrupt"
        running.is_spoilt = False
        assert "kind" not in load(page, CASES[0])
        n_asked = len(running.asked)
        page = opened(chromium, running)
        page.evaluate("start()")
        assert load(page, CASES[0])["n_came"] == 0
        assert len(running.asked) == n_asked
        assert compute(page, CASES[0])["results"] == CASES[0]["R16"]
