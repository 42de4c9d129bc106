import json
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import pytest

from p2pmoe.api.answers import ChoiceEnd, Piece, joined
from p2pmoe.api.chat import parse_chat
from p2pmoe.api.preparation import Asked, prepare
from p2pmoe.api.running import Running
from p2pmoe.api.served_model import ServedModel
from p2pmoe.api.text_completions import parse_completion
from p2pmoe.backbone.generation import FinishReason, GenerationFailed
from p2pmoe.text.tool_calls.calls import CalledTool
from tests.support.api import EOS, Script, small_model, spell
from tests.support.tool_templates import ANSWERS, TOOL_TEMPLATES
from tests.support.trio_test import trio_test

MODEL = small_model()


async def collect(
    script: Script, **fields: object
) -> tuple[list[str], FinishReason, int]:
    body = json.dumps({"prompt": "x", **fields}).encode()
    prepared = prepare(parse_completion(body), MODEL, Asked(fresh_seed=7))
    (choice,) = prepared.choices
    async with script.generate(choice.generation) as run:
        running = Running(run, choice, prepared, MODEL.tokenizer)
        async with aclosing(running.pieces()) as generated:
            pieces = [piece.text async for piece in generated]
        answer = running.end()
        return pieces, answer.finish, len(answer.tokens)


@trio_test
async def test_b21_one_piece_for_each_step() -> None:
    script = Script(blocks=[*spell("😊"), (EOS,)])
    pieces, finish, count = await collect(script)
    assert pieces == ["", "", "", "😊", ""]
    assert (finish, count) == (FinishReason.STOP, 5)


@trio_test
async def test_b21_a_broken_rest_is_replaced_at_the_end() -> None:
    script = Script(blocks=[*spell("😊")[:2], (EOS,)])
    pieces, _, _ = await collect(script)
    assert pieces == ["", "", "\ufffd"]
    script = Script(blocks=spell("😊")[:2])
    pieces, _, _ = await collect(script)
    assert pieces == ["", "", "\ufffd"]


@trio_test
async def test_a_stop_string_ends_it_before_the_engine_does() -> None:
    script = Script(blocks=spell("hello you"), hang=True)
    pieces, finish, count = await collect(script, stop=" y")
    assert "".join(pieces) == "hello"
    assert (finish, count) == (FinishReason.STOP, 3)


@trio_test
async def test_b18_blocks_past_max_tokens_are_cut() -> None:
    script = Script(blocks=[(100,) * 5, (100,) * 5], hang=True)
    _, finish, count = await collect(script, max_tokens=8)
    assert (finish, count) == (FinishReason.LENGTH, 8)


@trio_test
async def test_the_engines_own_reason_counts() -> None:
    script = Script(blocks=spell("hello"), reason=FinishReason.LENGTH)
    _, finish, count = await collect(script)
    assert (finish, count) == (FinishReason.LENGTH, 1)


@trio_test
async def test_b23_an_end_without_a_reason_is_a_failure() -> None:
    with pytest.raises(GenerationFailed, match="without an end"):
        await collect(Script(blocks=spell("hello"), reason=None))


@trio_test
async def test_b23_an_answer_before_the_end_is_a_failure() -> None:
    prepared = prepare(parse_completion(b'{"prompt": "x"}'), MODEL, Asked(fresh_seed=7))
    (choice,) = prepared.choices
    async with Script().generate(choice.generation) as run:
        with pytest.raises(GenerationFailed, match="not complete"):
            Running(run, choice, prepared, MODEL.tokenizer).end()


async def told(
    script: Script, model: ServedModel = MODEL, **fields: object
) -> tuple[list[Piece], ChoiceEnd]:
    body = json.dumps({"messages": [{"role": "user", "content": "x"}], **fields})
    prepared = prepare(parse_chat(body.encode()), model, Asked(fresh_seed=7))
    (choice,) = prepared.choices
    async with script.generate(choice.generation) as run:
        running = Running(run, choice, prepared, model.tokenizer)
        async with aclosing(running.pieces()) as generated:
            pieces = [piece async for piece in generated]
        return pieces, running.end()


@trio_test
async def test_b21_a_stop_string_cuts_the_log_probabilities() -> None:
    script = Script(blocks=spell("hello you"), hang=True)
    pieces, end = await told(script, stop="lo y", logprobs=True)
    whole = joined(pieces)
    assert whole.text == "hel"
    assert b"".join(each.placed.piece for each in whole.scored) == b"hel"
    assert len(end.tokens) == 3


@trio_test
async def test_missing_log_probabilities_are_a_failure() -> None:
    class Silent(Script):
        @asynccontextmanager
        async def generate(self, request):
            bare = replace(request, n_top_logprobs=None)
            async with super().generate(bare) as run:
                yield run

    with pytest.raises(GenerationFailed, match="missing"):
        await told(Silent(blocks=spell("hello")), logprobs=True)


HERMES = small_model(n_context=4096, template=TOOL_TEMPLATES["hermes"])
WEATHER = {"type": "function", "function": {"name": "weather"}}
CALL = CalledTool("weather", '{"city": "Bern"}')


@trio_test
async def test_calls_of_tools_end_with_their_reason() -> None:
    script = Script(blocks=[*spell("Hm. " + ANSWERS["hermes"] * 2), (EOS,)])
    pieces, end = await told(script, HERMES, tools=[WEATHER])
    whole = joined(pieces)
    assert (whole.text, whole.calls) == ("Hm.", (CALL, CALL))
    assert end.finish is FinishReason.TOOL_CALLS
    pieces, end = await told(script, HERMES)
    assert joined(pieces).calls == ()
    assert end.finish is FinishReason.STOP


@trio_test
async def test_without_parallel_calls_the_first_ends_it() -> None:
    script = Script(blocks=spell(ANSWERS["hermes"] * 2), hang=True)
    pieces, end = await told(script, HERMES, tools=[WEATHER], parallel_tool_calls=False)
    assert joined(pieces).calls == (CALL,)
    assert end.finish is FinishReason.TOOL_CALLS
    assert len(end.tokens) == len(spell(ANSWERS["hermes"]))


@trio_test
async def test_a_call_cut_by_the_limit_is_text_and_ends_for_its_length() -> None:
    script = Script(blocks=spell(ANSWERS["hermes"]))
    pieces, end = await told(script, HERMES, tools=[WEATHER], max_tokens=30)
    whole = joined(pieces)
    assert ANSWERS["hermes"].startswith(whole.text)
    assert (whole.calls, end.finish) == ((), FinishReason.LENGTH)


@trio_test
async def test_a_forced_call_is_one_whatever_the_model_wants() -> None:
    script = Script(blocks=spell('I would {"rather":["not"]} ') * 20, obeys=True)
    pieces, end = await told(script, HERMES, tools=[WEATHER], tool_choice="required")
    whole = joined(pieces)
    assert whole.text == ""
    if end.finish is not FinishReason.LENGTH:
        assert [call.name for call in whole.calls] == ["weather"]


@trio_test
async def test_an_answer_by_a_schema_parses() -> None:
    script = Script(blocks=spell('Well, "yes", 33 {1} ') * 20, obeys=True)
    schema = {"type": "object", "properties": {"a": {"enum": ["yes", "no"]}}}
    schema |= {"required": ["a"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    pieces, end = await told(script, response_format=form)
    assert end.finish is FinishReason.STOP
    assert json.loads(joined(pieces).text)["a"] in {"yes", "no"}


@trio_test
async def test_echo_tells_the_prompt_first_and_may_tell_it_alone() -> None:
    body = {"prompt": "hello", "echo": True, "logprobs": 1, "max_tokens": 0}
    for limit, text in ((0, "hello"), (1, "hello you"[:5] + " ")):
        own = json.dumps({**body, "max_tokens": limit}).encode()
        prepared = prepare(parse_completion(own), MODEL, Asked(fresh_seed=7))
        (choice,) = prepared.choices
        async with Script(blocks=spell(" you")).generate(choice.generation) as run:
            running = Running(run, choice, prepared, MODEL.tokenizer)
            async with aclosing(running.pieces()) as generated:
                whole = joined([piece async for piece in generated])
            end = running.end()
        assert (whole.text, len(end.tokens)) == (text, limit)
        assert end.finish is FinishReason.LENGTH
        assert len(whole.scored) == 2 + limit  # BOS, the word, what comes
        assert whole.scored[0].score.logprob is None
        assert [each.placed.start for each in whole.scored] == [0, 0, 5][: 2 + limit]
