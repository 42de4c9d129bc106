"""One finding of the doctor: what was looked at, how it is, what to do about it.

ok        nothing to do
note      worth knowing, and no fault for most uses
warning   works, but badly or not for long
fault     joining or computing fails until it is seen to
"""

from dataclasses import dataclass
from enum import StrEnum

from mobile_worker.arithmetic.errors import KernelUnavailable
from p2pmoe.errors import P2pmoeError
from relay.errors import RelayError

__all__ = ["Finding", "Verdict", "fault_of"]


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`check` is one word; `text` and `advice` are sentences without a full stop."""

    check: str
    verdict: Verdict
    text: str
    advice: str = ""


def fault_of(
    check: str, error: RelayError | P2pmoeError | KernelUnavailable
) -> Finding:
    """Return the finding that says what an error made for people says."""
    return Finding(
        check=check, verdict=Verdict.FAULT, text=str(error), advice=error.advice
    )
