"""Ask the worker that runs on a data folder, through its control socket. Blocking."""

from collections.abc import Mapping
from pathlib import Path

from p2pmoe.contributor.errors import WorkerNotRunning, WorkerSilent
from p2pmoe.contributor.lines import MAX_LINE_BYTES, pack_request, parse_answer
from p2pmoe.local_socket.asking import NoAnswer, NobodyThere, ask_line

__all__ = ["ask_worker"]

_WAIT_S = 20.0


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
        raise WorkerNotRunning(f"no worker runs on {folder}: {exc}") from exc
    except NoAnswer as exc:
        raise WorkerSilent(f"the worker on {folder} gave no answer: {exc}") from exc
    return parse_answer(answer)
