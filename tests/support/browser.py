"""A headless Chromium for tests, driven over its DevTools protocol; nothing else.

    with browser() as chromium:
        page = chromium.open(url, width=390, height=844, dark=True)
        page.until("document.title !== ''")

Calls block: from a trio task they go through a thread. The browser has a folder of its
own, no network services, and ends with the block. Source: the Chrome DevTools Protocol.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

__all__ = ["LOW_CONTRAST", "Browser", "Page", "browser", "needs_chromium"]

START_WITHIN_S = 60.0
ANSWER_WITHIN_S = 60.0
_QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--ignore-certificate-errors",
    "--remote-debugging-port=0",
)


def needs_chromium() -> str:
    """Return where Chromium is, or skip the calling test; CI must have it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is not None:
        return program
    if os.environ.get("P2PMOE_REQUIRE_SHARED") == "1":
        pytest.fail("needs chromium")
    pytest.skip("needs chromium")


# Text whose contrast with what lies behind it is below 4.5 (WCAG 2.2, 1.4.3 and G18).
LOW_CONTRAST = """
(() => {
  const channels = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((x) => x / 255)
    .map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = channels(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName)) continue;
    const ink = channels(getComputedStyle(element).color);
    const [a, b] = [light(ink), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) low.push([walker.currentNode.data, contrast]);
  }
  return low;
})()
"""


class Page:
    """One page. `messages`: what it wrote to the console, exceptions and CSP too."""

    def __init__(self, connection: ClientConnection, session: str) -> None:
        self._connection = connection
        self._session = session
        self._number = 0
        self.messages: list[str] = []

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call one method of the protocol and return its result."""
        said = self._ask(method, parameters)
        assert "error" not in said, (method, said["error"])
        return dict(said["result"])

    def _ask(self, method: str, parameters: dict[str, object]) -> dict[str, Any]:
        self._number += 1
        self._connection.send(
            json.dumps(
                {
                    "id": self._number,
                    "sessionId": self._session,
                    "method": method,
                    "params": parameters,
                }
            )
        )
        while True:
            said = json.loads(self._connection.recv(timeout=ANSWER_WITHIN_S))
            if said.get("id") == self._number:
                return dict(said)
            self._note(said)

    def _note(self, said: dict[str, Any]) -> None:
        if said.get("sessionId") != self._session:
            return  # of a page that was closed
        match said.get("method"):
            case "Runtime.exceptionThrown":
                details = said["params"]["exceptionDetails"]
                self.messages.append(json.dumps(details))
            case "Runtime.consoleAPICalled":
                values = [each.get("value") for each in said["params"]["args"]]
                self.messages.append(str(values))
            case "Log.entryAdded":
                self.messages.append(said["params"]["entry"]["text"])

    def evaluate(self, expression: str) -> Any:
        """Return the JSON value of an expression in the page."""
        said = self._evaluated(expression)
        assert "error" not in said, (expression, said["error"])
        result = said["result"]
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true, not an error or false, and return it.

        Between two documents of a page nothing can be evaluated, which is an error too.
        """
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while True:
            said = self._evaluated(expression)
            result = said.get("result", {})
            value = result.get("result", {}).get("value")
            if value and "exceptionDetails" not in result:
                return value
            assert time.monotonic() < deadline, (expression, said, self.messages)
            time.sleep(0.02)

    def heard(self, words: str) -> None:
        """Wait until a message has these words: it may come after what it is about."""
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while not any(words in message for message in self.messages):
            assert time.monotonic() < deadline, (words, self.messages)
            self.evaluate("0")
            time.sleep(0.02)

    def _evaluated(self, expression: str) -> dict[str, Any]:
        """Return what the protocol says of an expression: a result or an error."""
        parameters = {"returnByValue": True, "awaitPromise": True}
        return self._ask("Runtime.evaluate", {"expression": expression, **parameters})

    def key(self, name: str) -> None:
        """Press a key."""
        code = {"Enter": 13, "Tab": 9, "End": 35, "Home": 36}.get(name, 0)
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=name,
                windowsVirtualKeyCode=code,
                **({"text": "\r"} if name == "Enter" and kind == "keyDown" else {}),
            )

    def screenshot(self, path: Path, *, full: bool = True) -> None:
        """Write a PNG of the whole page, or of what is in view."""
        shot = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=full
        )
        path.write_bytes(base64.b64decode(shot["data"]))


class Browser:
    """A running Chromium."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 1 << 20
        self._target = ""

    def open(
        self,
        url: str,
        *,
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        reduced_motion: bool = False,
    ) -> Page:
        """Open a page of this size in place of the last; below 600 px a phone's."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        if self._target:
            self._call("Target.closeTarget", targetId=self._target)
        self._target = target
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        page = Page(self._connection, attached["sessionId"])
        for domain in ("Runtime", "Log", "Page"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if width < 600 else 1,
            mobile=width < 600,
        )
        motion = "reduce" if reduced_motion else "no-preference"
        page.call(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                {"name": "prefers-reduced-motion", "value": motion},
            ],
        )
        page.call("Page.navigate", url=url)
        return page

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        said = {"id": self._number, "method": method, "params": parameters}
        self._connection.send(json.dumps(said))
        while True:
            answer = json.loads(self._connection.recv(timeout=ANSWER_WITHIN_S))
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium and end it with the block."""
    program = needs_chromium()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        child = subprocess.Popen(
            [program, *_QUIET, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with connect(_address(child, Path(folder)), max_size=None) as connection:
                yield Browser(connection)
        finally:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _address(child: "subprocess.Popen[bytes]", folder: Path) -> str:
    port_file = folder / "DevToolsActivePort"
    deadline = time.monotonic() + START_WITHIN_S
    while True:
        assert child.poll() is None, f"chromium ended with {child.returncode}"
        lines = port_file.read_text().split() if port_file.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        assert time.monotonic() < deadline, "chromium does not start"
        time.sleep(0.05)
