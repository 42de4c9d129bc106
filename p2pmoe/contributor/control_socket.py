"""The control socket of a running worker: its user's commands, and nobody else's.

Contract: that of `p2pmoe.local_socket`, in the worker's data folder, whose key file is
locked. Every line is answered, by a result or by why not.
"""

import logging
from pathlib import Path

from p2pmoe.contributor.desk import Desk
from p2pmoe.contributor.errors import ControlRefused
from p2pmoe.contributor.lines import (
    MAX_LINE_BYTES,
    pack_error,
    pack_result,
    parse_request,
)
from p2pmoe.local_socket.serving import LineServer

__all__ = ["answer_line", "control_server"]

_LOG = logging.getLogger("p2pmoe.contributor")


def control_server(folder: Path, desk: Desk) -> LineServer:
    """Return what serves a desk in a worker's folder."""

    async def answer(line: bytes) -> bytes:
        return answer_line(desk, line)

    return LineServer(
        folder=folder,
        answer=answer,
        max_line_bytes=MAX_LINE_BYTES,
        log=_LOG,
        is_last_word=True,
        remedy="`p2pmoe status` and its like cannot reach this worker",
    )


def answer_line(desk: Desk, line: bytes) -> bytes:
    """Return the line that answers one; a fault of ours is told and logged."""
    try:
        operation, params = parse_request(line)
        return pack_result(desk.operate(operation, params))
    except ControlRefused as error:
        return pack_error(str(error), error.advice)
    except Exception:  # noqa: BLE001  a bug in one operation ends no other
        _LOG.exception("an operation failed")
        return pack_error("the worker failed at this", "see its log")
