"""Ask the worker that runs on a data folder, through its control socket. Blocking."""

from collections.abc import Mapping
from pathlib import Path

from mobile_worker.session.identity import is_in_use
from p2pmoe.contributor.errors import WorkerNotRunning, WorkerSilent
from p2pmoe.contributor.lines import MAX_LINE_BYTES, pack_request, parse_answer
from p2pmoe.errors import P2pmoeError
from p2pmoe.local_socket.asking import NoAnswer, NobodyThere, ask_line

__all__ = ["ask_worker"]

_WAIT_S = 20.0
_NOTHING_THERE = (FileNotFoundError, ConnectionRefusedError)


def ask_worker(
    folder: Path,
    operation: str,
    params: Mapping[str, object] | None = None,
    *,
    wait_s: float = _WAIT_S,
) -> dict[str, object]:
    """Return the answer of the worker that runs on a folder.

    Raises:
        WorkerNotRunning: none does.
        WorkerSilent: it gave no answer in time, or one that is none.
        ControlRefused: it does not do this.
    """
    line = pack_request(operation, params or {})
    try:
        answer = ask_line(folder, line, max_bytes=MAX_LINE_BYTES, wait_s=wait_s)
    except NobodyThere as exc:
        raise _absence(folder, exc) from exc
    except NoAnswer as exc:
        raise WorkerSilent(f"the worker on {folder} gave no answer: {exc}") from exc
    return parse_answer(answer)


def _absence(folder: Path, error: NobodyThere) -> P2pmoeError:
    """Return what it means that nobody answers: who holds the key runs."""
    if is_in_use(folder / "identity"):
        return WorkerSilent(f"the worker on {folder} cannot be asked: {error}")
    cause = error.__cause__
    why = "" if isinstance(cause, _NOTHING_THERE) else f": {error}"
    return WorkerNotRunning(f"no worker runs on {folder}{why}")
