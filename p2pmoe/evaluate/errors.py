"""What can be wrong with an evaluation, as one small tree.

EvaluationError(ConfigurationError)
  SetRefused       a line of a task set, or a text, cannot be used; names the line
  RunUnreadable    a file is no stored run, or one of another version
  RunsDiffer       two runs have nothing that may be compared
  NotEvaluated     a setting without a run on record is not to be served
MeasurementFailed(P2pmoeError)   the model that is measured gave no usable answer
"""

from p2pmoe.errors import ConfigurationError, P2pmoeError

__all__ = [
    "EvaluationError",
    "MeasurementFailed",
    "NotEvaluated",
    "RunUnreadable",
    "RunsDiffer",
    "SetRefused",
]


class EvaluationError(ConfigurationError):
    """Root of the errors of what an evaluation is given."""


class SetRefused(EvaluationError):
    """A task set or a text cannot be measured on."""

    advice = "see docs/reference/evaluation.md for what it may hold"


class RunUnreadable(EvaluationError):
    """A file is no run of `p2pmoe eval` that this version can read."""

    advice = "name a file that `p2pmoe eval` stored"


class RunsDiffer(EvaluationError):
    """Two runs were made on different inputs: their figures say nothing together."""

    advice = "evaluate both on the same text and set"


class NotEvaluated(EvaluationError):
    """A setting that must be evaluated before it is served is not."""

    advice = "measure it with `p2pmoe eval`, or serve without --require-evaluation"


class MeasurementFailed(P2pmoeError):
    """What is measured answered, but not with what the measure needs."""

    exit_code = 1
