"""A jinja2 environment for templates that come with model files: code of strangers.

On top of jinja2's ImmutableSandboxedEnvironment (fault B07):

- Only the methods, filters and globals listed here; no include, import or extends.
- Every loop turn and every call spends from a budget of steps; these and every filter,
  test, comparison and slice look at the deadline.
- Every value that an operation could make large is measured before it is made; one
  that is put together from others counts with all that is in it, however often, since
  comparing it, hashing it or putting it out takes as long.
- Nothing is evaluated while compiling.

So a template can neither run code, nor spin, nor fill the memory. The budget of the
rendering under way is in a context variable: one environment serves all threads.
"""

import json
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS
from jinja2.utils import Namespace, pass_context

from p2pmoe.text.template_tree import metered_tree

__all__ = ["Budget", "BudgetExceeded", "MessagesRefused", "Sandbox", "spending"]

_MAX_NUMBER = 1 << 63
_ATTRIBUTES = "_Namespace__attrs"  # where a Namespace keeps what a template put in
_MAX_COPIES = 8  # of the largest text: macros and blocks put text out again

_TEXT_METHODS = frozenset(
    [
        *("capitalize", "count", "endswith", "find", "index", "isalnum", "isalpha"),
        *("isdigit", "islower", "isspace", "isupper", "join", "lower", "lstrip"),
        *("partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex"),
        *("rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith"),
        *("strip", "title", "upper"),
    ]
)
_METHODS: tuple[tuple[type, frozenset[str]], ...] = (
    (str, _TEXT_METHODS),
    (dict, frozenset({"get", "items", "keys", "values"})),
    (list, frozenset({"count", "index"})),
    (tuple, frozenset({"count", "index"})),
)
_FILTERS = [
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float"),
    *("int", "items", "last", "length", "list", "lower", "map", "max", "min"),
    *("reject", "rejectattr", "reverse", "round", "select", "selectattr", "sort"),
    *("title", "trim", "unique", "upper"),
]
_FORBIDDEN = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class BudgetExceeded(jinja2.TemplateError):
    """The template took too many steps, too long, or made too much text."""


class MessagesRefused(jinja2.TemplateError):
    """The template itself refused its messages, by `raise_exception`."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """What one rendering may use; `deadline` is on the clock `monotonic`."""

    max_characters: int
    deadline: float
    monotonic: Callable[[], float]
    steps: int = 200_000
    emitted: int = 0
    made: int = 0

    def spend(self, steps: int) -> None:
        """Take `steps` away; BudgetExceeded if they or the time are used up."""
        self.steps -= steps
        if self.steps < 0:
            raise BudgetExceeded("it takes too many steps")
        self.tick()

    def tick(self) -> None:
        """Look at the deadline; BudgetExceeded if it is past."""
        if self.monotonic() > self.deadline:
            raise BudgetExceeded("it takes too long")

    def admit(self, size: int) -> None:
        """Refuse a value of more than `max_characters` characters or items."""
        if size > self.max_characters:
            raise BudgetExceeded("it makes too much text")

    def emit(self, size: int) -> None:
        """Count text put out, wherever it goes; refuse far more than the limit."""
        self.emitted += size
        self.admit(self.emitted // _MAX_COPIES)

    def make(self, size: int) -> None:
        """Count what a filter makes, which may run over many items at once."""
        self.admit(size)
        self.made += size
        self.admit(self.made // _MAX_COPIES)

    def number(self, value: int) -> None:
        """Refuse an integer that is no longer an ordinary one."""
        if abs(value) > _MAX_NUMBER:
            raise BudgetExceeded("it computes too large a number")

    def measure(self, value: object) -> int:
        """Return about how many characters `value` has as text, or refuse it."""
        size = 0
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Mapping):
                waiting += [*item.keys(), *item.values()]
            elif isinstance(item, list | tuple | KeysView | ValuesView | ItemsView):
                waiting += item
            elif isinstance(item, Namespace):
                waiting.append(object.__getattribute__(item, _ATTRIBUTES))
            size += len(item) if isinstance(item, str) else 1
            self.admit(size + len(waiting))
        return size


_budget: ContextVar[Budget] = ContextVar("budget")


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Charge everything rendered within to `budget`."""
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)


class _Turns(list[object]):
    """The items of a loop; each turn looks at the deadline."""

    def __iter__(self) -> Iterator[object]:
        budget = _budget.get()
        for item in super().__iter__():
            budget.tick()
            yield item


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment; `compile_template` is the way in, within `spending`."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        """Build it with the listed filters and globals only."""
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            finalize=_measured_output,
            extensions=[loopcontrols, _Generation],
        )
        self.filters = {name: _timed(FILTERS[name]) for name in _FILTERS}
        self.tests = {name: _timed(test) for name, test in TESTS.items()}
        self.filters |= {
            "indent": _indent,
            "join": _join,
            "replace": _replace,
            "safe": _string,  # nothing is escaped here
            "string": _string,
            "tojson": _tojson,
        }
        self.globals = {
            "dict": _dict,
            "namespace": Namespace,
            "raise_exception": _raise_exception,
            "range": _range,
        }

    def compile_template(self, source: str) -> jinja2.Template:
        """Return the compiled template; jinja2.TemplateError if it is not allowed."""
        tree = self.parse(source)
        for forbidden in tree.find_all(_FORBIDDEN):
            kind = type(forbidden).__name__.lower()
            raise jinja2.TemplateSyntaxError(f"{kind} is not allowed", forbidden.lineno)
        return self.from_string(metered_tree(tree))

    def metered(self, items: Iterable[object]) -> list[object]:
        """Return the items of a loop, paid for in advance."""
        budget = _budget.get()
        turns = _Turns(islice(items, budget.max_characters + 1))
        budget.admit(len(turns))
        budget.spend(len(turns) + 1)
        return turns

    def joined(self, *items: object) -> str:
        """Return what the operator ~ gives."""
        _budget.get().spend(1)
        return "".join(map(_string, items))

    def timed(self, value: object) -> object:
        """Return an operand of what may take long; the deadline is looked at."""
        _budget.get().tick()
        return value

    def measured(self, value: object) -> object:
        """Return what a template put together, unless it is too large in all."""
        _budget.get().tick()
        _budget.get().measure(value)
        return value

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Join the pieces of a macro, a block or the whole; measured as they come."""
        budget = _budget.get()
        pieces: list[str] = []
        size = 0
        for piece in parts:
            size += len(piece)
            budget.admit(size)
            pieces.append(piece)
        return "".join(pieces)

    def wrap_str_format(self, value: object) -> None:
        """Leave `str.format` to the list of methods, which has it not."""

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        """Allow the listed methods of text and collections, and the parent's rest."""
        for kind, names in _METHODS:
            if isinstance(obj, kind):
                return attr in names
        return super().is_safe_attribute(obj, attr, value)

    def call(
        self, context: Context, obj: object, /, *args: object, **kwargs: object
    ) -> object:
        """Charge every call, and measure what replacing and joining will make."""
        owner = getattr(obj, "__self__", None)
        if owner is self and callable(obj):  # put in by `metered_tree`, by nobody else
            return obj(*args)
        _budget.get().spend(1)
        name = getattr(obj, "__name__", "")
        if isinstance(owner, str) and name in _MEASURED:
            return _MEASURED[name](owner, *args)  # kwargs are jinja2's own
        return super().call(context, obj, *args, **kwargs)

    def call_binop(
        self, context: Context, operator: str, left: object, right: object
    ) -> object:
        """Measure what an operator will make before it does."""
        budget = _budget.get()
        if operator == "+":
            budget.admit(_size(budget, left) + _size(budget, right))
        elif operator == "*":
            _check_product(budget, left, right)
        elif operator == "**":
            raise BudgetExceeded("it computes a power, which is not allowed")
        elif isinstance(left, str):
            raise BudgetExceeded("it formats text with %, which is not allowed")
        return super().call_binop(context, operator, left, right)


class _Generation(Extension):
    """`{% generation %}`: what the model itself wrote, marked for training; output."""

    tags = frozenset({"generation"})  # type: ignore[assignment]

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _timed(function: Any) -> Callable[..., object]:  # noqa: ANN401 - jinja2's own
    """Return a filter or test of jinja2's that is metered, as all that it makes."""

    @wraps(function)  # with its marks of what it wants to be passed
    def called(*args: object, **kwargs: object) -> object:
        budget = _budget.get()
        budget.tick()
        made = function(*args, **kwargs)
        if isinstance(made, str | list | tuple):
            budget.make(len(made))
        return made

    return called


def _size(budget: Budget, value: object) -> int:
    return budget.measure(value) if isinstance(value, str | list | tuple) else 0


def _check_product(budget: Budget, left: object, right: object) -> None:
    for many, times in ((left, right), (right, left)):
        if isinstance(many, str | list | tuple) and isinstance(times, int):
            budget.admit(budget.measure(many) * max(times, 0))
    if isinstance(left, int) and isinstance(right, int):
        budget.number(left * right)


@pass_context  # keeps jinja2 from evaluating output while compiling
def _measured_output(_context: Context, value: object) -> object:
    budget = _budget.get()
    budget.emit(budget.measure(value))
    return value


def _string(value: object) -> str:
    _budget.get().measure(value)
    return str(value)


def _join(items: Iterable[object], separator: str = "") -> str:
    budget = _budget.get()
    texts = [_string(item) for item in _items(budget, items)]
    budget.make(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _items(budget: Budget, items: Iterable[object]) -> list[object]:
    listed = list(islice(items, budget.max_characters + 1))
    budget.measure(listed)
    return listed


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    found = text.count(old) if count < 0 else min(count, text.count(old))
    _budget.get().make(len(text) + found * len(new))
    return text.replace(old, new, count)


def _join_method(separator: str, items: Iterable[object]) -> str:
    return _join(items, separator)


_MEASURED: dict[str, Callable[..., str]] = {"join": _join_method, "replace": _replace}


def _tojson(
    value: object,
    indent: int | None = None,
    *,
    ensure_ascii: bool = False,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    budget = _budget.get()
    size = budget.measure(value)
    longest = max((len(separator) for separator in separators or ()), default=1)
    budget.make(size * (longest + min(indent or 0, 8) + 1))
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent and min(indent, 8),
        separators=separators and (str(separators[0]), str(separators[1])),
        sort_keys=sort_keys,
    )


def _indent(text: str, width: int | str = 4, first: object = False) -> str:
    margin = width if isinstance(width, str) else " " * min(width, 1 << 10)
    _budget.get().make(len(text) + len(margin) * (text.count("\n") + 1))
    lines = text.split("\n")
    rest = [margin + line if line else line for line in lines[1:]]
    return "\n".join([margin + lines[0] if first else lines[0], *rest])


def _dict(*items: Iterable[tuple[object, object]], **fields: object) -> object:
    _budget.get().measure([*items, fields])
    made: dict[object, object] = dict(*items)
    made.update(fields)
    return made


def _raise_exception(message: object) -> None:
    raise MessagesRefused(_string(message)[:200])


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    _budget.get().admit(len(numbers))
    return numbers
