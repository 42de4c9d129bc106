"""What goes over a worker's control socket: one line asked, one line answered. Pure.

A line is one JSON object in UTF-8, ended by a newline, at most `MAX_LINE_BYTES` long:

    {"version": 1, "operation": NAME, "params": {...}}
    {"version": 1, "result": {...}}
    {"version": 1, "error": {"message", "advice"}}

Nothing in a line is trusted before it was checked (`p2pmoe.local_socket.lines`).
"""

from collections.abc import Mapping

from p2pmoe.contributor.errors import ControlRefused, WorkerSilent
from p2pmoe.local_socket.lines import pack_line, read_line
from p2pmoe.strict_json import NotStrict

__all__ = [
    "MAX_LINE_BYTES",
    "pack_error",
    "pack_request",
    "pack_result",
    "parse_answer",
    "parse_request",
]

MAX_LINE_BYTES = 4 << 20
_MAX_TEXT = 1000


def pack_request(operation: str, params: Mapping[str, object]) -> bytes:
    """Return the line that asks for an operation."""
    return pack_line({"operation": operation, "params": params})


def pack_result(result: Mapping[str, object]) -> bytes:
    """Return the line that answers it."""
    return pack_line({"result": result})


def pack_error(message: str, advice: str = "") -> bytes:
    """Return the line that says why not."""
    error = {"message": message[:_MAX_TEXT], "advice": advice[:_MAX_TEXT]}
    return pack_line({"error": error})


def parse_request(line: bytes) -> tuple[str, dict[str, object]]:
    """Return an operation's name and parameters.

    Raises:
        ControlRefused: the line is no request.
    """
    try:
        fields = read_line(line, MAX_LINE_BYTES)
    except NotStrict as exc:
        raise ControlRefused(f"a request that {exc}") from exc
    operation, params = fields.get("operation"), fields.get("params")
    if not isinstance(operation, str) or not isinstance(params, dict):
        raise ControlRefused("a request names no operation and its params")
    return operation, params


def parse_answer(line: bytes) -> dict[str, object]:
    """Return an operation's result.

    Raises:
        ControlRefused: the worker said why not.
        WorkerSilent: the line is no answer.
    """
    try:
        fields = read_line(line, MAX_LINE_BYTES)
    except NotStrict as exc:
        raise WorkerSilent(f"the worker's answer {exc}") from exc
    error, result = fields.get("error"), fields.get("result")
    if isinstance(error, dict):
        message = str(error.get("message", ""))[:_MAX_TEXT]
        raise ControlRefused(message, advice=str(error.get("advice", ""))[:_MAX_TEXT])
    if not isinstance(result, dict):
        raise WorkerSilent("the worker's answer holds neither result nor error")
    return result
