"""Whether the right tools were called with the right arguments.

An answer is right if its calls are, in any order, exactly those expected: the same
names, and arguments that are the same JSON (1 is 1.0, the order of keys says nothing).
With `subset`, further arguments are no fault. Arguments that are no JSON object are
wrong, whatever was expected. Where no call is expected, any call is wrong.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from p2pmoe.evaluate.reading import Misread, parse_object
from p2pmoe.evaluate.schema import same_json
from p2pmoe.evaluate.task_set import ExpectedCall

__all__ = ["MadeCall", "ToolScore", "calls_of", "score_calls"]

_MAX_CALLS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeCall:
    """A call that the model made; `arguments` None if they are no JSON object."""

    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolScore:
    """`names`: the right tools; `right`: the arguments too."""

    names: bool
    right: bool


def calls_of(message: Mapping[str, Any]) -> list[MadeCall]:
    """Return the calls of an assistant's message in OpenAI's shape.

    Raises:
        Misread: `tool_calls` is of no such shape.
    """
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or len(calls) > _MAX_CALLS:
        raise Misread("tool_calls is no array of calls")
    return [_made(call) for call in calls]


def _made(call: object) -> MadeCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str):
        raise Misread("tool_calls holds what is no call of a function")
    arguments = function.get("arguments")
    try:
        return MadeCall(name=name, arguments=parse_object(str(arguments)))
    except Misread:
        return MadeCall(name=name, arguments=None)


def score_calls(
    made: Sequence[MadeCall], expected: Sequence[ExpectedCall], *, subset: bool
) -> ToolScore:
    """Compare the calls made with those expected; see the module."""
    names = Counter(call.name for call in made)
    if names != Counter(call.name for call in expected):
        return ToolScore(names=False, right=False)
    left = list(made)
    for call in expected:
        fitting = next((m for m in left if _fits(m, call, subset=subset)), None)
        if fitting is None:
            return ToolScore(names=True, right=False)
        left.remove(fitting)
    return ToolScore(names=True, right=True)


def _fits(made: MadeCall, call: ExpectedCall, *, subset: bool) -> bool:
    if made.name != call.name or made.arguments is None:
        return False
    given = made.arguments
    if subset:
        given = {name: v for name, v in given.items() if name in call.arguments}
    return same_json(given, dict(call.arguments))
