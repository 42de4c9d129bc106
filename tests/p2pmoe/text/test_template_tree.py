"""What jinja2 would compile into plain operations goes through the environment."""

import jinja2
import pytest

from p2pmoe.text.template_tree import metered_tree


class Recorder(jinja2.Environment):
    """An environment that notes which of its methods are called."""

    def __init__(self) -> None:
        super().__init__(optimized=False)
        self.called: list[str] = []

    def metered(self, items: list[object]) -> list[object]:
        self.called.append("metered")
        return items

    def joined(self, *items: object) -> str:
        self.called.append("joined")
        return "".join(map(str, items))

    def measured(self, value: object) -> object:
        self.called.append("measured")
        return value

    def timed(self, value: object) -> object:
        self.called.append("timed")
        return value


@pytest.mark.parametrize(
    ("source", "text", "called"),
    [
        ("{% for x in y %}{{ x }}{% endfor %}", "12", ["metered"]),
        ("{{ 'a' ~ 'b' ~ 1 }}", "ab1", ["joined"]),
        ("{{ [1, 'a' ~ 'b'] }}", "[1, 'ab']", ["joined", "measured"]),
        ("{{ {'a': [1]} }}", "{'a': [1]}", ["measured", "measured"]),
        ("{{ (1, (2,)) }}", "(1, (2,))", ["measured", "measured"]),
        ("{% set a, b = y %}{{ b }}", "2", []),
        (
            "{% for a, b in [(1, 2)] %}{{ b }}{% endfor %}",
            "2",
            ["measured"] * 2 + ["metered"],
        ),
        ("{{ 1 < 2 < 3 }}", "True", ["timed"]),
        ("{{ y[1:] }}{{ y[0] }}", "[2]1", ["timed"]),
        ("{% macro m(x=[1]) %}{{ x }}{% endmacro %}{{ m() }}", "[1]", ["measured"]),
        ("{% if y %}{{ y|length }}{% endif %}", "2", []),
    ],
)
def test_each_goes_its_way(source: str, text: str, called: list[str]) -> None:
    environment = Recorder()
    template = environment.from_string(metered_tree(environment.parse(source)))
    assert template.render(y=[1, 2]) == text
    assert environment.called == called
