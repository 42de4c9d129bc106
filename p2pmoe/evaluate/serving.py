"""A `serve` of the model for one evaluation: a child process on loopback.

What is measured is what users get: the same program, asked over the same API, with the
options that the operator serves with. Its data folder, with what is remembered of the
weights, and its key are its own: nobody else is answered meanwhile.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from p2pmoe.client.completions import ApiError
from p2pmoe.evaluate.asking import HttpApi, open_api
from p2pmoe.local_network.processes import Child, ChildFailed, Stage

__all__ = ["ServeOptions", "serving", "wait_until_ready"]

_START_WITHIN_S: Final = 120.0
_READY_WITHIN_S: Final = 3600.0  # a network may take long to cover a large model
_STOP_WITHIN_S: Final = 10.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What to serve: `model` as the command line takes it, and further options."""

    model: str | None
    options: Sequence[str] = ()


@asynccontextmanager
async def serving(
    folder: Path, wanted: ServeOptions, tell: Callable[[str, float], None]
) -> AsyncIterator[HttpApi]:
    """Start a `serve` in `folder`, and yield its API once it is ready.

    Raises:
        ChildFailed: it ended, or was not ready in time; its last line says why.
        ApiError: the API is lost.
    """
    stage = Stage(folder)
    data = folder / "data"
    key_file, key = _new_key(folder)
    try:
        child = await stage.start(
            "serve",
            [
                "serve",
                *([] if wanted.model is None else [wanted.model]),
                *wanted.options,
                *("--listen", "127.0.0.1:0", "--data", str(data)),
                *("--api-key-file", str(key_file), "--no-require-evaluation"),
            ],
        )
        report = await child.ready(_START_WITHIN_S)
        host, port = report["listen"]
        async with open_api(f"http://{host}:{port}", key) as api:
            await wait_until_ready(api, tell, child)
            yield api
    finally:
        await stage.stop_all(_STOP_WITHIN_S)


def _new_key(folder: Path) -> tuple[Path, str]:
    """Make a key for the child alone, whatever keys the operator's clients have."""
    path, key = folder / "api-key", secrets.token_urlsafe(24)
    path.touch(mode=0o600)
    path.write_text(f"{key}\n", encoding="ascii")
    return path, key


async def wait_until_ready(
    api: HttpApi,
    tell: Callable[[str, float], None],
    child: Child | None = None,
    within_s: float = _READY_WITHIN_S,
) -> None:
    """Wait until the server takes requests, telling its phase.

    Raises:
        ChildFailed: the child ended first, or it took longer than `within_s` seconds.
        ApiError: the server cannot be reached.
    """
    state = "not asked"
    with trio.move_on_after(within_s):
        while state := await _state(api, child):
            tell(state, 0.0)
            await trio.sleep(_POLL_S)
        return
    raise ChildFailed(f"the backbone was not ready after {within_s:.0f} s: {state}")


async def _state(api: HttpApi, child: Child | None) -> str:
    """Return how far a server has come; of a child that ended, why."""
    try:
        state = await api.ready()
    except ApiError:
        if child is None or child.is_running:
            raise
        raise ChildFailed(child.ending()) from None
    if state and child is not None and not child.is_running:
        raise ChildFailed(child.ending())
    return state
