"""The first start's measuring pass: which experts a little text uses.

Use is measured and never guessed, so a backbone without a record of use runs a short
text through the model from its own disk, in small steps, until the text or the time is
over. Blocking; run it on a worker thread before the hot set is filled.
"""

from collections.abc import Callable, Sequence

from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.model import Model

__all__ = ["WARM_UP_TEXT", "measure_use"]

WARM_UP_TEXT = (
    "The ship had been at sea for eleven days when the captain called us to the cabin. "
    "He spread the chart upon the table, and with one finger he followed the coast as "
    "far as the river. If the wind holds, he said, we shall see land before Thursday; "
    "and if it does not, we have bread for a week and water for two. Nobody answered. "
    "In a program, a function takes its arguments and returns a value: def add(a, b): "
    "return a + b. The committee met at 10:30 and agreed that 42 of 128 members were "
    "needed. Why does ice float on water? Because it is less dense than the liquid."
)
_STEP_TOKENS = 16


def measure_use(
    model: Model,
    experts: ExpertCaller,
    tokens: Sequence[int],
    *,
    monotonic: Callable[[], float],
    limit_s: float,
) -> int:
    """Run tokens through the model, counting as it goes; return how many were run.

    `experts` counts the use (scattered.py). At least one step is run; NonFinite and
    ModelFileError as the model raises them.
    """
    tokens = tokens[: model.description.n_context]
    if not tokens:
        return 0
    cache = model.new_cache(len(tokens))
    until = monotonic() + limit_s
    done = 0
    while done < len(tokens):
        step = tokens[done : done + _STEP_TOKENS]
        model.forward(step, cache, experts)
        done += len(step)
        if monotonic() >= until:
            break
    return done
