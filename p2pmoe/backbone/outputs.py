"""A worker's answer, believed only when it is row for row what was asked for.

`read_output` is a pure function of the question and the bytes: the row count must be
the one asked for (nothing is padded, nothing cut), the bytes must fill exactly those
rows in the session's profile, and every decoded value must be finite (faults B14, B34:
a NaN passes every comparison, so finiteness is tested by itself). Who sent it and
whether it is still wanted is the dispatcher's to know.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import ArithmeticRefused
from mobile_worker.arithmetic.profiles import (
    Profile,
    decode_result,
    result_row_bytes,
)
from mobile_worker.messages.serving import Output
from p2pmoe.backbone.plan import ExpertRows
from p2pmoe.errors import OutputRefused

__all__ = ["CallResult", "OutputShape", "read_output"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallResult:
    """One call's rows: decoded values f32 [n_rows, n_embd], and the coded bytes."""

    call: ExpertRows
    values: Floats
    coded: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputShape:
    """What an answer must look like."""

    calls: Sequence[ExpertRows]
    profile: Profile
    n_embd: int


def read_output(shape: OutputShape, output: Output, peer: bytes) -> list[CallResult]:
    """Return the results of each call, in the order of the question.

    Raises:
        OutputRefused: a row too many or too few, bytes of another length, or a value
            that the coding cannot produce or that is not finite.
    """
    n_rows = sum(len(call.rows) for call in shape.calls)
    if output.n_rows_total != n_rows:
        raise OutputRefused(
            f"an answer of {output.n_rows_total} rows where {n_rows} were asked for",
            peer=peer,
        )
    width = result_row_bytes(shape.profile, shape.n_embd)
    coded = bytes(output.results)
    if len(coded) != n_rows * width:
        raise OutputRefused(
            f"an answer of {len(coded)} bytes where {n_rows} rows are "
            f"{n_rows * width} bytes",
            peer=peer,
        )
    try:
        values = decode_result(coded, shape.profile, n_rows, shape.n_embd)
    except ArithmeticRefused as error:
        raise OutputRefused(
            f"an answer that is no result: {error}", peer=peer
        ) from error
    results = []
    start = 0
    for call in shape.calls:
        end = start + len(call.rows)
        results.append(
            CallResult(
                call=call,
                values=values[start:end],
                coded=coded[start * width : end * width],
            )
        )
        start = end
    return results
