"""Ask a running ledger for an operation, through the socket in its folder.

Contract: that of `p2pmoe.local_socket.asking`. Nobody there is `Unreachable`, so that
the caller may open the folder itself. No answer in time leaves it open whether the
operation was done; it is safe to ask again.
"""

from collections.abc import Mapping
from pathlib import Path

from ledger.errors import StoreBusy
from p2pmoe.errors import P2pmoeError
from p2pmoe.ledgerd.control_lines import (
    MAX_LINE_BYTES,
    pack_request,
    parse_answer,
)
from p2pmoe.local_socket.asking import NoAnswer, NobodyThere, ask_line

__all__ = ["Unreachable", "ask_control"]


class Unreachable(P2pmoeError):
    """No ledger answers at the socket of this folder."""

    advice = "start the ledger, or stop the process that holds its folder"


def ask_control(
    folder: Path, operation: str, params: Mapping[str, object], *, wait_s: float = 60.0
) -> dict[str, object]:
    """Return the answer of the ledger that runs on a folder.

    Raises:
        Unreachable: nobody is there, or it is somebody else.
        StoreBusy: there was no answer in time; it may have been done.
        LedgerError: what the operation raised.
    """
    line = pack_request(operation, params)
    try:
        answer = ask_line(folder, line, max_bytes=MAX_LINE_BYTES, wait_s=wait_s)
    except NobodyThere as exc:
        raise Unreachable(f"no ledger answers in {folder}: {exc}") from exc
    except NoAnswer as exc:
        error = StoreBusy(f"no answer to {operation}: {exc}")
        error.advice = "It may have been done: run it again, nothing is done twice."
        raise error from exc
    return parse_answer(answer)
