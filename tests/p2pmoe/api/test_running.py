import json
from contextlib import aclosing

import pytest

from p2pmoe.api.preparation import Asked, prepare
from p2pmoe.api.running import Running
from p2pmoe.api.text_completions import parse_completion
from p2pmoe.backbone.generation import FinishReason, GenerationFailed
from tests.support.api import EOS, Script, small_model, spell
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
