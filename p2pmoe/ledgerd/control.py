"""The control socket of a running ledger: its operator's commands, and nobody else's.

Contract: that of `p2pmoe.local_socket`, in the ledger's folder, whose lock is held.
What is asked runs on the store's writer and is answered after the commit; a client that
leaves does not undo it.
"""

import logging
from collections.abc import Mapping

import trio

from ledger.errors import FormatRefused, LedgerError
from ledger.store import Store
from p2pmoe.ledgerd.control_lines import (
    MAX_LINE_BYTES,
    pack_answer,
    pack_error,
    parse_request,
)
from p2pmoe.local_socket.serving import LineServer

__all__ = ["serve_control"]

_LOG = logging.getLogger("p2pmoe.ledgerd.control")


async def serve_control(
    store: Store, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve a store's operations until cancelled; started once the socket is there."""

    async def answer(line: bytes) -> bytes:
        return await _answer(store, line)

    server = LineServer(
        folder=store.folder.path,
        answer=answer,
        max_line_bytes=MAX_LINE_BYTES,
        log=_LOG,
        remedy="stop the ledger to change it",
    )
    await server.run(task_status=task_status)


async def _answer(store: Store, line: bytes) -> bytes:
    try:
        operation, params = parse_request(line)
        return pack_answer(await _operate(store, operation, params))
    except LedgerError as exc:
        return pack_error(exc)
    except Exception:  # noqa: BLE001  a bug in one operation ends no other
        _LOG.exception("an operation failed")
        return pack_error(FormatRefused("the ledger failed, see its log"))


async def _operate(
    store: Store, operation: str, params: Mapping[str, object]
) -> Mapping[str, object]:
    future = store.operate(operation, params)
    # Waiting is what the thread does: it may be left behind, the commit may not.
    return await trio.to_thread.run_sync(future.result, abandon_on_cancel=True)
