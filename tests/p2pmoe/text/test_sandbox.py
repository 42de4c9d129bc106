"""Fault B07: what a template from a stranger may do, and what it may not."""

import jinja2
import pytest

from p2pmoe.text.sandbox import (
    Budget,
    BudgetExceeded,
    MessagesRefused,
    Sandbox,
    spending,
)

MESSAGES = [
    {"role": "user", "content": "  hello "},
    {"role": "assistant", "content": "a</think>b"},
]


def render(source: str, *, seconds: float = 1e9) -> str:
    """Render with a clock on which each look takes a millisecond."""
    ticks = iter(range(10**9))
    budget = Budget(
        max_characters=10_000, deadline=seconds, monotonic=lambda: next(ticks) / 1000
    )
    with spending(budget):
        return Sandbox().compile_template(source).render(messages=MESSAGES)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "{% for m in messages %}{{ m.role }}{{ m['content']|trim }};{% endfor %}",
            "userhello;assistanta</think>b;",
        ),
        (
            "{% for m in messages if m.role == 'user' %}{{ loop.last }}{% endfor %}",
            "True",
        ),
        ("{% for m in messages %}{% break %}{% endfor %}ok", "ok"),
        ("{{ messages[::-1][0].content.split('</think>')[-1].lstrip('\\n') }}", "b"),
        ("{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 2 * 3 %}{{ ns.n }}", "6"),
        ("{{ 'a' ~ 1 ~ ('b' ~ 'c') }}{{ 7 % 4 }}", "a1bc3"),
        (
            "{{ range(3)|list|tojson }}{{ [1, 2]|join('-') }}{{ ','.join(['a']) }}",
            "[0, 1, 2]1-2a",
        ),
        ("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f('y')|upper }}", "<Y>"),
        ("{% set x %}{{ messages[0].role }}{% endset %}{{ x|length }}", "4"),
        ("{{ 'aXbX'.replace('X', '-') }}{{ 'aXbX'|replace('X', '-', 1) }}", "a-b-a-bX"),
        ("{{ tools is defined }}{{ 'é'|tojson }}", 'False"é"'),
        ("{{ {'a': [1]}.items()|list }}{{ 3|string }}", "[('a', [1])]3"),
        ("{{ dict([['a', 1]], b=2).b }}{{ '<b>'|safe }}", "2<b>"),
        (
            "{{ {'b': 'é', 'a': 1}|tojson(ensure_ascii=true, sort_keys=true) }}",
            '{"a": 1, "b": "\\u00e9"}',
        ),
        ("{{ [1, {'a': 2}]|tojson(separators=(',', ':')) }}", '[1,{"a":2}]'),
        ("{{ [1]|tojson(indent=4) }}", "[\n    1\n]"),
        ("{{ 'a\n\nb'|indent(2) }}{{ 'a'|indent(1, true) }}", "a\n\n  b a"),
        ("{% generation %}{{ 1 }}{% endgeneration %}{{ [3, 1]|max }}", "13"),
        ("{{ 'a-b'.partition('-')[2] }}{{ '2.5'|float|round|int }}", "b2"),
        (
            "{% for m in messages %}{% continue %}{% endfor %}{{ messages[1:]|count }}",
            "1",
        ),
        ("{{ 'a' is string and {} is mapping and not none is iterable }}", "True"),
    ],
    ids=range(21),
)
def test_what_templates_of_models_need(source: str, text: str) -> None:
    assert render(source) == text


@pytest.mark.parametrize(
    "source",
    [
        "{{ cycler.__init__.__globals__ }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'a': 1}) }}",
        "{% for i in range(10**7) %}x{% endfor %}",
        "{% for i in range(10000000) %}x{% endfor %}",
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
        "{% set n = namespace(s='xy') %}"
        "{% for i in range(50) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% set n = namespace(s='xy') %}"
        "{% for i in range(50) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "{% set n = namespace(s='xy') %}"
        "{% for i in range(50) %}{% set n.s = [n.s, n.s]|join %}{% endfor %}",
        "{% set n = namespace(s=['xy']) %}"
        "{% for i in range(50) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s }}",
        "{% set n = namespace(s='xy') %}"
        "{% for i in range(50) %}{% set n.s = n.s.replace('x', n.s) %}{% endfor %}",
        "{% set n = namespace(s=3) %}"
        "{% for i in range(50) %}{% set n.s = n.s * n.s %}{% endfor %}",
        "{% for i in range(9000) %}{{ 'x' * 9000 }}{% endfor %}",
        "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}"
        "{{ f(99) }}",
        "{{ 'a' * 1000000000 }}",
        "{{ [0] * 1000000000 }}",
        "{{ 9 ** 999999999 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ 'x'.center(1000000000) }}",
        "{{ 'x'|center(1000000000) }}",
        "{{ lipsum(n=1000000) }}",
        "{{ messages|attr('append') }}",
        "{{ ('x\n' * 4000)|indent(900) }}",
        "{{ (['x'] * 4000)|map('indent', 900, true)|list|length }}",
        "{% set b = 'y' * 4000 %}{{ (['x'] * 4000)|map('replace', 'x', b)|list }}",
        "{% set b = 'y' * 4000 %}{{ (['xx'] * 4000)|map('join', b)|list|length }}",
        "{{ messages|tojson(separators=['x' * 9000, 'y']) }}",
        "{{ ([[1, 2]] * 2000)|map('tojson', separators=('y' * 900, ''))|list }}",
        "{{ dict.fromkeys([1]) }}",
        "{{ dict.__subclasses__() }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% generation %}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends 'x' %}",
        "{% if %}",
        "{{ 1 / 0 }}",
    ],
)
def test_b07_attacks_are_refused(source: str) -> None:
    with pytest.raises((jinja2.TemplateError, RecursionError, ZeroDivisionError)):
        render(source)


def test_b07_time_runs_out() -> None:
    with pytest.raises(BudgetExceeded, match="too long"):
        render(
            "{% for i in range(900) %}{% for j in [1] %}{% endfor %}{% endfor %}",
            seconds=0.5,
        )


def test_a_template_may_refuse_its_messages() -> None:
    with pytest.raises(MessagesRefused, match="two user turns"):
        render("{{ raise_exception('two user turns') }}")


def test_a_budget_measures_nested_values() -> None:
    budget = Budget(max_characters=20, deadline=1, monotonic=lambda: 0.0)
    assert budget.measure(["abc", {"k": ("v", 1)}]) >= 6
    with pytest.raises(BudgetExceeded):
        budget.measure([["abcdefgh"] * 2] * 2)


DOUBLED = (
    "{% set n = namespace(l=START) %}{% for i in range(30) %}"
    "{% set n.l = MADE %}{% endfor %}"
)
# What takes long by operations that are no calls, or in one operation.
SLOW = {
    "equal": DOUBLED.replace("START", "[1]").replace("MADE", "[n.l, n.l]")
    + "{% set m = n.l %}{{ n.l == m }}",
    "hashed": DOUBLED.replace("START", "(1,)").replace("MADE", "(n.l, n.l)")
    + "{{ {n.l: 1} }}",
    "objects": DOUBLED.replace("START", "{}").replace("MADE", "{'a': n.l, 'b': n.l}"),
    "namespaces": "{% set n0 = namespace(a=1) %}"
    + "".join(f"{{% set n{i + 1} = namespace(a=n{i}, b=n{i}) %}}" for i in range(30))
    + "{{ n30 }}",
    "itself": "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
    "views": "{% set d = dict(a='b' * 5000) %}{{ [d.items()] * 5000 }}",
    "values": "{% set d = dict(a='b' * 9000) %}{{ [d.values(), d.values()] }}",
    "lists": "{{ ([range(9000)] * 9000)|map('list')|list|length }}",
    "sorted": "{{ ([range(9000)] * 9000)|map('sort')|list|length }}",
    "texts": "{{ (['a'] * 9000)|map('replace', 'a', 'b' * 5000)|list|length }}",
    "tests": "{{ range(9000)|select('in', range(9000)|list)|list|length }}",
    "filters in a loop": "{% set s = 'a ' * 4000 %}{% for i in range(9000) %}"
    "{{ '' if s|title == 'x' }}{% endfor %}",
    "sorting in a loop": "{% set s = range(9000)|list %}{% for i in range(9000) %}"
    "{{ '' if s|sort|first == 1 }}{% endfor %}",
    "comparisons": "{% set s = 'a' * 4000 %}" + "{{ '' if 'b' in s }}" * 2000,
    "slices": "{% set s = range(9000)|list %}" + "{% set t = s[1:] %}" * 2000,
    "an empty loop": "{% for i in range(9000) %}{% endfor %}",
}


@pytest.mark.parametrize("name", SLOW)
def test_b07_nothing_takes_long_between_two_looks_at_the_clock(name: str) -> None:
    with pytest.raises((BudgetExceeded, TypeError)):
        render(SLOW[name], seconds=1)


def test_a_large_conversation_costs_few_steps() -> None:
    source = (
        "{% for m in messages * 100 %}{% for i in range(200) %}"
        "{% if m.role == 'user' and m.content in ['x'] %}"
        "{{ m.content|trim }}{% elif m.role != 'user' %}{% endif %}"
        "{% if m.role is string and (m.role, 1) != (1, 2) %}{% endif %}"
        "{% endfor %}{% endfor %}ok"
    )
    assert render(source).strip() == "ok"


def test_targets_of_assignments_stay_what_they_are() -> None:
    source = (
        "{% set a, b = 1, [2] %}{% for x, y in [(1, 2), [3, 4]] %}{{ y }}{% endfor %}"
    )
    assert render(source + "{{ a, b }}") == "24(1, [2])"
