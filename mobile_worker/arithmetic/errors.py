"""Errors of the arithmetic: a value or a format that it refuses.

All are ours in the sense of the house rules: the caller handed in something that the
specification excludes. What a peer handed in is refused by the caller, who knows it.
"""

from mobile_worker.errors import LocalError

__all__ = [
    "ArithmeticRefused",
    "CodeRefused",
    "FormatUnsupported",
    "KernelUnavailable",
    "MatrixMalformed",
    "NonFinite",
    "ShapeMismatch",
]


class ArithmeticRefused(LocalError):
    """Any refusal of the arithmetic."""


class NonFinite(ArithmeticRefused):
    """A value is infinite or not a number; ends the call with error ARITH."""

    advice = "check the model file and the input; non-finite values are never passed on"


class CodeRefused(ArithmeticRefused):
    """An activation code or scale that the block coding cannot produce (-128, NaN)."""


class FormatUnsupported(ArithmeticRefused):
    """A block format that this version cannot compute with."""

    advice = (
        "use a file in Q4_0 to Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4, NVFP4, "
        "F16, BF16 or F32"
    )


class KernelUnavailable(ArithmeticRefused):
    """A kernel that is unknown, not there on this machine, or wrong on it."""

    advice = "p2pmoe bench kernels lists what this machine has"


class MatrixMalformed(ArithmeticRefused):
    """A matrix whose bytes do not fit its shape or hold what is no weight."""

    advice = "the model file is damaged or was made wrongly; fetch it again"


class ShapeMismatch(ArithmeticRefused):
    """Inputs of one call whose shapes do not fit each other."""
