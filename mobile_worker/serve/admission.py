"""Whether a DISPATCH fits the model and this session; a function of values.

That the parts of the message agree with each other was checked when it was parsed;
here it meets the manifest, the tab and what is held (faults B14, B25). Nothing is
reserved and nothing computed for a dispatch that has any problem.
"""

from dataclasses import dataclass

from mobile_worker.arithmetic.errors import ArithmeticRefused
from mobile_worker.arithmetic.profiles import Profile, result_row_bytes
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.serving import Dispatch, ExpertCall, OutputError
from mobile_worker.serve.held import HeldModel

__all__ = [
    "MAX_DISPATCH_ROWS",
    "MAX_RESULT_BYTES",
    "Problem",
    "check_dispatch",
    "n_macs",
]

MAX_DISPATCH_ROWS = 4096
MAX_RESULT_BYTES = 48 << 20  # of one answer: it must fit into a message


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a dispatch is not computed: the code to answer with, and a line to log."""

    error: OutputError
    reason: str


def check_dispatch(
    dispatch: Dispatch, model: HeldModel, profile: int, max_macs: int
) -> Problem | None:
    """Return what is wrong with a dispatch for this model and tab, or None.

    max_macs: multiply-adds of one dispatch; what others wait for has an end.
    """
    misfit = _misfit(dispatch, model, profile)
    if misfit is not None:
        return Problem(OutputError.BAD_REQUEST, misfit)
    wanted = [ExpertId(dispatch.layer, call.index) for call in dispatch.calls]
    lacking = [expert for expert in wanted if expert not in model.weights]
    if lacking:
        return Problem(OutputError.NOT_HELD, f"expert {lacking[0]} is not held here")
    for expert in wanted:
        coded, floats = model.needs(expert)
        if coded and dispatch.coded is None:
            return Problem(OutputError.BAD_REQUEST, f"{expert} needs coded rows")
        if floats and dispatch.floats is None:
            return Problem(OutputError.BAD_REQUEST, f"{expert} needs f32 rows")
    return _excess(dispatch, model, max_macs)


def n_macs(dispatch: Dispatch, model: HeldModel) -> int:
    """Return the multiply-adds of a dispatch of known experts."""
    return sum(
        len(call.rows) * model.macs(ExpertId(dispatch.layer, call.index))
        for call in dispatch.calls
    )


def _excess(dispatch: Dispatch, model: HeldModel, max_macs: int) -> Problem | None:
    n = n_macs(dispatch, model)
    if n <= max_macs:
        return None
    reason = f"{n} multiply-adds, at most {max_macs} are computed at once"
    return Problem(OutputError.BAD_REQUEST, reason)


def _misfit(dispatch: Dispatch, model: HeldModel, profile: int) -> str | None:
    manifest = model.manifest
    if dispatch.layer >= manifest.n_layer:
        return f"layer {dispatch.layer} of {manifest.n_layer}"
    if dispatch.n_embd != manifest.n_embd:
        return f"rows of {dispatch.n_embd} values, the model has {manifest.n_embd}"
    if not 1 <= dispatch.n_rows <= MAX_DISPATCH_ROWS:
        return f"{dispatch.n_rows} rows, at most {MAX_DISPATCH_ROWS} are taken"
    if dispatch.profile != profile:
        return f"profile {dispatch.profile}, the tab has {profile}"
    misfits = (_misfit_of_call(dispatch, call, model) for call in dispatch.calls)
    return next((m for m in misfits if m is not None), _misfit_of_results(dispatch))


def _misfit_of_results(dispatch: Dispatch) -> str | None:
    """Rows times experts may be far more than the rows that came."""
    try:
        row_bytes = result_row_bytes(Profile(dispatch.profile), dispatch.n_embd)
    except ArithmeticRefused as error:
        return str(error)
    n_bytes = row_bytes * sum(len(call.rows) for call in dispatch.calls)
    if n_bytes > MAX_RESULT_BYTES:
        return f"an answer of {n_bytes} bytes, at most {MAX_RESULT_BYTES} are given"
    return None


def _misfit_of_call(
    dispatch: Dispatch, call: ExpertCall, model: HeldModel
) -> str | None:
    if call.index >= model.manifest.n_expert:
        return f"expert {call.index} of {model.manifest.n_expert}"
    if not call.rows or not 0 <= min(call.rows) <= max(call.rows) < dispatch.n_rows:
        return f"row indices of expert {call.index} are not in the dispatch"
    if ExpertId(dispatch.layer, call.index) not in model.experts:
        return f"layer {dispatch.layer} has no routed expert {call.index}"
    return None
