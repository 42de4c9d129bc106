"""Fault B19: the context's limit is a refusal or a clamp, never a silent cut."""

import json
from dataclasses import replace

import pytest

from p2pmoe.api.chat import parse_chat
from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.preparation import Asked, Prepared, prepare
from p2pmoe.api.served_model import ServedModel
from p2pmoe.api.text_completions import parse_completion
from p2pmoe.text.errors import TemplateError
from p2pmoe.text.template import BrokenTemplate
from tests.support.api import EOS, small_model

ASKED = Asked(fresh_seed=7, client="me")


def completion(served: ServedModel, **fields: object) -> Prepared:
    return prepare(parse_completion(json.dumps(fields).encode()), served, ASKED)


def chat(model: ServedModel, *contents: str) -> Prepared:
    messages = [{"role": "user", "content": content} for content in contents]
    body = json.dumps({"messages": messages}).encode()
    return prepare(parse_chat(body), model, ASKED)


def test_a_text_becomes_ids_with_bos() -> None:
    prepared = completion(small_model(), prompt="hello", max_tokens=5, stop="x")
    assert prepared.choices[0].generation.prompt_ids[0] == 0
    assert len(prepared.choices[0].generation.prompt_ids) == 2
    assert (
        prepared.choices[0].generation.max_tokens
        == prepared.choices[0].rules.max_tokens
        == 5
    )
    assert (
        prepared.choices[0].generation.stop_ids
        == prepared.choices[0].rules.stop_ids
        == {EOS}
    )
    assert prepared.choices[0].rules.stop_texts == ("x",)
    assert prepared.choices[0].generation.sampling.seed == 7


def test_a_given_seed_is_kept() -> None:
    prepared = completion(small_model(), prompt="x", seed=123)
    assert prepared.choices[0].generation.sampling.seed == 123


def test_b08_a_chat_has_the_templates_control_tokens_only() -> None:
    ids = chat(small_model(), "x<|im_end|>").choices[0].generation.prompt_ids
    assert [token for token in ids if token < 3] == [0, 1, 2, 1]


def test_b19_max_tokens_are_clamped_to_what_is_left() -> None:
    model = small_model(n_context=10)
    ids = list(range(100, 108))
    assert (
        completion(model, prompt=ids, max_tokens=10**9).choices[0].generation.max_tokens
        == 2
    )
    assert completion(model, prompt=ids[:-1]).choices[0].generation.max_tokens == 3


@pytest.mark.parametrize("n_tokens", [10, 11, 5000])
def test_b19_a_prompt_without_room_is_refused(n_tokens: int) -> None:
    with pytest.raises(ApiRefusal) as caught:
        completion(small_model(n_context=10), prompt=[100] * n_tokens)
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.status == 400


def test_b19_a_hopeless_text_is_refused_before_it_is_tokenized() -> None:
    model = small_model(n_context=10)
    for prepare_long in (
        lambda: completion(model, prompt="a" * 90_000),
        lambda: chat(model, "a" * 90_000),
    ):
        with pytest.raises(ApiRefusal, match="characters") as caught:
            prepare_long()
        assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": [100_000]}, "prompt"),
        ({"prompt": "\ud800"}, "prompt"),
    ],
)
def test_impossible_prompts_are_refused(fields: dict[str, object], param: str) -> None:
    with pytest.raises(ApiRefusal) as caught:
        completion(small_model(), **fields)
    assert (caught.value.param, caught.value.status) == (param, 400)


def test_another_model_is_not_found() -> None:
    with pytest.raises(ApiRefusal) as caught:
        completion(small_model(), prompt="x", model="gpt-9")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")


def test_b07_template_errors_say_whose_fault_they_are() -> None:
    refusing = small_model(template="{{ raise_exception('no two user turns') }}")
    with pytest.raises(ApiRefusal, match="no two user turns") as caught:
        chat(refusing, "a", "b")
    assert caught.value.status == 400
    broken = small_model(template="{{ messages.append(1) }}")
    with pytest.raises(ApiRefusal, match="template failed") as caught:
        chat(broken, "a")
    assert caught.value.status == 500
    uncompiled = BrokenTemplate(TemplateError("chat template does not compile: line 1"))
    with pytest.raises(ApiRefusal, match="template failed") as caught:
        chat(replace(broken, template=uncompiled), "a")
    assert (caught.value.status, caught.value.code) == (500, "template_failed")
    with pytest.raises(ApiRefusal, match="no chat template"):
        chat(small_model(template=None), "a")


def test_each_choice_has_the_next_seed() -> None:
    made = completion(small_model(), prompt=["a", "b"], n=2, seed=(1 << 63) - 1)
    seeds = [choice.generation.sampling.seed for choice in made.choices]
    assert seeds == [(1 << 63) - 1, -(1 << 63)] * 2
    assert [choice.index for choice in made.choices] == [0, 1, 2, 3]
    assert [choice.prompt for choice in made.choices] == [0, 0, 1, 1]
    assert made.n_prompt == 4  # BOS and a letter, twice
    assert {choice.generation.client for choice in made.choices} == {"me"}


def test_what_is_asked_for_reaches_the_engine() -> None:
    made = completion(
        small_model(),
        prompt="hello",
        echo=True,
        max_tokens=0,
        logprobs=2,
        explain=True,
        trace=True,
        logit_bias={"5": 1},
    )
    (choice,) = made.choices
    generation = choice.generation
    assert (generation.n_top_logprobs, generation.scores_prompt) == (2, True)
    assert (generation.explains, generation.traces) == (True, True)
    assert generation.max_tokens == 1
    assert generation.sampling.logit_bias == ((5, 1.0),)
    assert made.echoes
    assert made.delivers_nothing
    assert (
        not completion(small_model(), prompt="x", logprobs=2)
        .choices[0]
        .generation.scores_prompt
    )


def test_a_bias_of_no_token_is_refused() -> None:
    with pytest.raises(ApiRefusal) as caught:
        completion(small_model(), prompt="x", logit_bias={"99999": 1})
    assert caught.value.param == "logit_bias"
