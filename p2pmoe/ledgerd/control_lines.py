"""What goes over a ledger's control socket: one line asked, one line answered.

A line is one JSON object in UTF-8, ended by a newline, at most `MAX_LINE_BYTES` long:

    {"version": 1, "operation": NAME, "params": {...}}
    {"version": 1, "result": {...}}
    {"version": 1, "error": {"kind", "message", "advice", "exit_code"}}

An error comes out at the other end as the same class of `ledger.errors`, with its
message and advice. Nothing in a line is trusted before it was checked. Pure, but for
finding where the socket lies.
"""

from collections.abc import Mapping
from typing import Any, cast

from ledger import errors
from ledger.errors import FormatRefused, LedgerError
from p2pmoe.local_socket.lines import pack_line, read_line
from p2pmoe.strict_json import NotStrict

__all__ = [
    "MAX_LINE_BYTES",
    "pack_answer",
    "pack_error",
    "pack_request",
    "parse_answer",
    "parse_request",
]

MAX_LINE_BYTES = 16 << 20
_MAX_TEXT = 2000
_EXIT_CODES = (1, 2, 3)


def pack_request(operation: str, params: Mapping[str, object]) -> bytes:
    """Return the line that asks for an operation.

    Raises:
        FormatRefused: it is longer than a line may be.
    """
    return _line({"operation": operation, "params": params})


def pack_answer(result: Mapping[str, object]) -> bytes:
    """Return the line that answers it.

    Raises:
        FormatRefused: it is longer than a line may be.
    """
    return _line({"result": result})


def pack_error(error: LedgerError) -> bytes:
    """Return the line that says why not."""
    return _line(
        {
            "error": {
                "kind": type(error).__name__,
                "message": str(error)[:_MAX_TEXT],
                "advice": error.advice[:_MAX_TEXT],
                "exit_code": error.exit_code,
            }
        }
    )


def parse_request(line: bytes) -> tuple[str, dict[str, object]]:
    """Return an operation's name and parameters.

    Raises:
        FormatRefused: the line is no request.
    """
    fields = _fields(line)
    operation, params = fields.get("operation"), fields.get("params")
    if not isinstance(operation, str) or not isinstance(params, dict):
        raise FormatRefused("a request names no operation and its params")
    return operation, params


def parse_answer(line: bytes) -> dict[str, object]:
    """Return an operation's result.

    Raises:
        FormatRefused: the line is no answer.
        LedgerError: the operation's own error.
    """
    fields = _fields(line)
    error, result = fields.get("error"), fields.get("result")
    if isinstance(error, dict):
        raise _rebuilt(error)
    if not isinstance(result, dict):
        raise FormatRefused("an answer holds neither result nor error")
    return result


def _rebuilt(fields: Mapping[str, object]) -> LedgerError:
    kind = fields.get("kind")
    name = kind if isinstance(kind, str) and kind in errors.__all__ else "LedgerError"
    made = cast("type[LedgerError]", getattr(errors, name))
    error = made(str(fields.get("message"))[:_MAX_TEXT])
    error.advice = str(fields.get("advice", ""))[:_MAX_TEXT]
    exit_code = fields.get("exit_code")
    error.exit_code = exit_code if exit_code in _EXIT_CODES else 2
    return error


def _line(fields: Mapping[str, object]) -> bytes:
    line = pack_line(fields)
    if len(line) > MAX_LINE_BYTES:
        raise FormatRefused(f"a line of {len(line)} bytes, at most {MAX_LINE_BYTES}")
    return line


def _fields(line: bytes) -> dict[str, Any]:
    try:
        return read_line(line, MAX_LINE_BYTES)
    except NotStrict as exc:
        raise FormatRefused(f"a line that {exc}") from exc
