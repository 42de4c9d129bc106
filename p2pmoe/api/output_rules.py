"""What an answer may be, and how it is read: by a schema, or by the model's tools."""

from collections.abc import Callable
from dataclasses import dataclass

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.requests import ApiRequest, Conversation
from p2pmoe.api.response_formats import ResponseFormat
from p2pmoe.api.served_model import ServedModel
from p2pmoe.api.tools import ToolMode, ToolUse
from p2pmoe.backbone.generation import TokenConstraint
from p2pmoe.grammar.errors import GrammarRefused
from p2pmoe.grammar.grammars import bounded_schema
from p2pmoe.text.tool_calls.calls import OutputReader, PlainReader
from p2pmoe.text.tool_calls.families import ToolFamily
from p2pmoe.text.tool_calls.parameters import known_tool

__all__ = ["OutputRules", "output_rules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRules:
    """How the tokens of each choice become an answer.

    `constraint` makes the rule for its tokens, None for none. With `one_call` it ends
    with the first call of a tool.
    """

    new_reader: Callable[[], OutputReader]
    token_bytes: Callable[[int], bytes]
    constraint: Callable[[], TokenConstraint] | None = None
    one_call: bool = False


def output_rules(request: ApiRequest, model: ServedModel) -> OutputRules:
    """Return the rules of a request's answers.

    Raises:
        ApiRefusal: A schema that cannot be followed, or tools that this model has not.
    """
    prompt = request.prompts[0]
    if not isinstance(prompt, Conversation):
        return OutputRules(
            new_reader=PlainReader, token_bytes=model.tokenizer.token_bytes
        )
    family = model.family
    if prompt.tool_use is not None:
        if family is None:
            raise _refused("tools", "the format of this model's calls is not known")
        return _with_tools(prompt.tool_use, family, model)
    constraint = _schema_rule(request.response_format, model)
    if family is not None and family.answer is not None:
        return OutputRules(
            new_reader=lambda: family.new_reader(()),
            token_bytes=model.reading(family.controls),
            constraint=constraint,
        )
    return OutputRules(
        new_reader=PlainReader,
        token_bytes=model.tokenizer.token_bytes,
        constraint=constraint,
    )


def _schema_rule(
    form: ResponseFormat | None, model: ServedModel
) -> Callable[[], TokenConstraint] | None:
    if form is None:
        return None
    family = model.family
    try:
        if family is not None and family.answer is not None:
            schema = bounded_schema(form.schema)
            rules = family.answer(schema, _control_ids(family, model))
            return model.grammars.lark(rules).start
        return model.grammars.json(form.schema).start
    except GrammarRefused as exc:
        raise _refused(form.param, str(exc)) from exc


def _with_tools(use: ToolUse, family: ToolFamily, model: ServedModel) -> OutputRules:
    tools = [known_tool(tool.name, tool.schema) for tool in use.tools]
    return OutputRules(
        new_reader=lambda: family.new_reader(tools),
        token_bytes=model.reading(family.controls),
        constraint=_forced_call(use, family, model),
        one_call=not use.parallel,
    )


def _forced_call(
    use: ToolUse, family: ToolFamily, model: ServedModel
) -> Callable[[], TokenConstraint] | None:
    if use.mode is ToolMode.AUTO:
        return None
    try:
        chosen = [
            known_tool(tool.name, bounded_schema(tool.schema))
            for tool in use.callable_tools
        ]
        rules = family.forced(chosen, _control_ids(family, model))
        return model.grammars.lark(rules).start
    except GrammarRefused as exc:
        raise _refused("tools", f"a schema of a tool: {exc}") from exc


def _control_ids(family: ToolFamily, model: ServedModel) -> dict[str, int]:
    """Return the marks of a format that are control tokens, with their ids."""
    texts = model.tokenizer.vocabulary.texts
    return {
        text: token
        for token, text in enumerate(texts)
        if text in family.controls and not model.tokenizer.token_bytes(token)
    }


def _refused(param: str, reason: str) -> ApiRefusal:
    return ApiRefusal(f"{param}: {reason}", param=param, code="unsupported_parameter")
