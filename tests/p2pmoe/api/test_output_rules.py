"""What an answer may be: by a schema, by tools, or anything."""

import numpy as np
import pytest

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.output_rules import OutputRules, output_rules
from p2pmoe.api.served_model import ServedModel
from p2pmoe.text.tool_calls.calls import PlainReader
from p2pmoe.text.tool_calls.harmony import HarmonyReader
from p2pmoe.text.tool_calls.tags import TaggedReader
from tests.p2pmoe.api.test_requests import chat, completion
from tests.p2pmoe.api.test_tools import NAMED, TIME, WEATHER
from tests.support.api import small_model
from tests.support.tool_templates import TOOL_TEMPLATES

TOOLS = [WEATHER, TIME]


def like(family: str) -> ServedModel:
    return small_model(template=TOOL_TEMPLATES[family])


def rules(model: ServedModel, **fields: object) -> OutputRules:
    return output_rules(chat(**fields), model)


def beginnings(made: OutputRules, model: ServedModel) -> set[bytes]:
    assert made.constraint is not None
    allowed = np.flatnonzero(made.constraint().allowed())
    return {model.tokenizer.token_bytes(int(token)) for token in allowed}


def test_text_is_free_by_default() -> None:
    for made in (
        rules(small_model()),
        rules(like("hermes")),
        rules(like("hermes"), tools=TOOLS, tool_choice="none"),
        output_rules(completion(), like("hermes")),
    ):
        assert isinstance(made.new_reader(), PlainReader)
        assert made.constraint is None
    assert isinstance(rules(like("harmony")).new_reader(), HarmonyReader)
    echoed = output_rules(completion(), like("harmony"))
    assert isinstance(echoed.new_reader(), PlainReader)


def test_a_schema_rules_the_answer() -> None:
    model = small_model()
    made = rules(model, response_format={"type": "json_object"})
    assert beginnings(made, model) == {b"{"}


def test_tools_are_read_and_forced_if_wanted() -> None:
    model = like("hermes")
    free = rules(model, tools=TOOLS, parallel_tool_calls=False)
    assert isinstance(free.new_reader(), TaggedReader)
    assert (free.constraint, free.one_call) == (None, True)
    for choice in ("required", NAMED):
        made = rules(model, tools=TOOLS, tool_choice=choice)
        assert beginnings(made, model) == {b"<"}
        assert not made.one_call


@pytest.mark.parametrize("family", sorted(TOOL_TEMPLATES))
def test_each_family_can_be_forced(family: str) -> None:
    for choice in ("required", NAMED):
        made = rules(like(family), tools=TOOLS, tool_choice=choice)
        assert made.constraint is not None


def test_a_schema_that_cannot_be_followed_is_named() -> None:
    odd = {"type": "array", "uniqueItems": True}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": odd}}
    with pytest.raises(ApiRefusal, match="uniqueItems") as caught:
        rules(small_model(), response_format=form)
    assert caught.value.param == "response_format.json_schema.schema"
    tool = {"type": "function", "function": {"name": "x", "parameters": odd}}
    with pytest.raises(ApiRefusal, match="uniqueItems") as caught:
        rules(like("hermes"), tools=[tool], tool_choice="required")
    assert caught.value.param == "tools"
    rules(like("hermes"), tools=[tool])  # free text may break any schema


def test_a_model_whose_calls_are_not_known_refuses_tools() -> None:
    with pytest.raises(ApiRefusal) as caught:
        rules(small_model(), tools=TOOLS)
    assert caught.value.param == "tools"
