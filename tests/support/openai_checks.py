"""What the official client must be able to do with a backbone, whatever is behind it.

Each check takes a client; the model is the pocket one with a template that takes tools.
"""

import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model

__all__ = ["CHECKS", "MODEL", "POCKET", "Check", "official"]

POCKET = Path(__file__).resolve().parents[2] / "p2pmoe/models/pocket-q4_0.gguf"

Check = Callable[[openai.OpenAI], None]
MODEL = "p2pmoe-pocket"
PROMPT = "It was a dark night, and the old man"
MESSAGES: Any = [{"role": "user", "content": "Tell me of the sea."}]
SAMPLED: Any = {"temperature": 0.8, "seed": 7}
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "How warm it is in a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"enum": ["Bern", "Oslo"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}


def official(url: str, key: str = "any") -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{url}/v1",
        api_key=key,
        max_retries=0,
        timeout=120.0,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    )


def models(client: openai.OpenAI) -> None:
    (model,) = client.models.list()
    assert model.id == MODEL
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def chat(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "messages": MESSAGES, "max_tokens": 12, **SAMPLED}
    whole = client.chat.completions.create(**asked)
    text = whole.choices[0].message.content
    assert text
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 12
    assert whole.choices[0].finish_reason == "length"
    options = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options=options)
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(pieces) == text
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens


def completions(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "prompt": PROMPT, "max_tokens": 12, **SAMPLED}
    text = client.completions.create(**asked).choices[0].text
    stream = client.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == text
    stopped = client.completions.create(**asked, stop=text[4:9])
    assert stopped.choices[0].text == text[: text.index(text[4:9])]
    assert stopped.choices[0].finish_reason == "stop"


def choices(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "prompt": PROMPT, "max_tokens": 8, "temperature": 0.9}
    many = client.completions.create(**asked, seed=40, n=3)
    alone = [
        client.completions.create(**asked, seed=40 + copy).choices[0].text
        for copy in range(3)
    ]
    assert [choice.text for choice in many.choices] == alone
    assert many.usage is not None
    assert many.usage.completion_tokens == 24
    texts = ["", "", ""]
    for chunk in client.completions.create(**asked, seed=40, n=3, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == alone
    two = client.completions.create(
        **{**asked, "prompt": [PROMPT, "The sea was"]}, seed=40
    )
    assert [choice.index for choice in two.choices] == [0, 1]
    assert two.choices[0].text == alone[0]


def logprobs(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "messages": MESSAGES, "max_tokens": 8, **SAMPLED}
    asked |= {"logprobs": True, "top_logprobs": 3}
    choice = client.chat.completions.create(**asked).choices[0]
    assert choice.logprobs is not None
    told = choice.logprobs.content or []
    assert len(told) == 8
    spelled = b"".join(bytes(token.bytes or []) for token in told)
    assert spelled.decode() == choice.message.content
    for token in told:
        assert token.logprob <= 0.0
        tops = [top.logprob for top in token.top_logprobs]
        assert len(tops) == 3
        assert tops == sorted(tops, reverse=True)
        assert token.logprob <= tops[0]
    streamed = [
        token
        for chunk in client.chat.completions.create(**asked, stream=True)
        if chunk.choices[0].logprobs is not None
        for token in chunk.choices[0].logprobs.content or []
    ]
    assert streamed == told


def echo(client: openai.OpenAI) -> None:
    """As evaluation tools score a continuation: ids in, log probabilities out."""
    asked: Any = {"model": MODEL, "logprobs": 1, "temperature": 0.0}
    written = client.completions.create(**asked, prompt=PROMPT, max_tokens=6)
    assert written.choices[0].logprobs is not None
    ids = written.model_extra["p2pmoe"]["tokens"]  # type: ignore[index]
    said = written.choices[0].logprobs
    prompt = _prompt_ids()
    scored = client.completions.create(
        **asked, prompt=[prompt + ids, prompt], echo=True, max_tokens=1
    )
    whole, short = sorted(scored.choices, key=lambda choice: choice.index)
    assert whole.logprobs is not None
    assert short.logprobs is not None
    assert len(short.logprobs.tokens or []) == len(prompt) + 1
    values = whole.logprobs.token_logprobs or []
    assert len(values) == len(prompt) + 6 + 1
    assert values[0] is None
    for told, again in zip(
        said.token_logprobs or [], values[len(prompt) : -1], strict=True
    ):
        assert math.isclose(told, again, abs_tol=1e-9)
    for value, top in zip(
        values[len(prompt) : -1],
        (whole.logprobs.top_logprobs or [])[len(prompt) : -1],
        strict=True,
    ):
        assert value == max(top.values())  # greedy
    none = client.completions.create(**asked, prompt=PROMPT, echo=True, max_tokens=0)
    assert none.choices[0].text == PROMPT
    assert none.usage is not None
    assert none.usage.completion_tokens == 0


@functools.cache
def _prompt_ids() -> list[int]:
    with open_model(POCKET) as model:
        return load_tokenizer(model).encode(PROMPT, bos=True)


def biases(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt=PROMPT, max_tokens=4, logit_bias={"100": 100}, **SAMPLED
    )
    assert answer.model_extra is not None
    assert answer.model_extra["p2pmoe"]["tokens"] == [100] * 4


def formats(client: openai.OpenAI) -> None:
    for seed in range(3):
        loose = client.chat.completions.create(
            model=MODEL,
            messages=MESSAGES,
            max_tokens=60,
            seed=seed,
            response_format={"type": "json_object"},
        ).choices[0]
        content = loose.message.content or ""
        assert content.startswith("{")
        if loose.finish_reason == "stop":
            assert isinstance(json.loads(content), dict)
    schema = WEATHER["function"]["parameters"]
    form: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for stream in (False, True):
        text, reason = _text(client, response_format=form, stream=stream)
        assert reason == "stop"
        assert set(json.loads(text)) == {"city", "days"}


def _text(client: openai.OpenAI, *, stream: bool, **fields: Any) -> tuple[str, str]:
    asked: Any = {"model": MODEL, "messages": MESSAGES, "max_tokens": 600, **fields}
    asked |= SAMPLED
    if not stream:
        choice = client.chat.completions.create(**asked).choices[0]
        return choice.message.content or "", choice.finish_reason
    text, reason = "", ""
    for chunk in client.chat.completions.create(**asked, stream=True):
        text += chunk.choices[0].delta.content or ""
        reason = chunk.choices[0].finish_reason or reason
    return text, reason


def tools(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "messages": MESSAGES, "tools": [WEATHER], **SAMPLED}
    asked["max_tokens"] = 600
    free = client.chat.completions.create(**{**asked, "max_tokens": 8}).choices[0]
    assert free.finish_reason == "length"
    named = {"type": "function", "function": {"name": "weather"}}
    for choice in ("required", named):
        told = client.chat.completions.create(**asked, tool_choice=choice).choices[0]
        assert told.finish_reason == "tool_calls"
        (call,) = told.message.tool_calls or []
        assert call.type == "function"
        assert call.function.name == "weather"
        assert json.loads(call.function.arguments)["city"] in {"Bern", "Oslo"}
    calls = []
    for chunk in client.chat.completions.create(
        **asked, tool_choice="required", stream=True
    ):
        calls += chunk.choices[0].delta.tool_calls or []
    (streamed,) = calls
    assert streamed.function is not None
    assert json.loads(streamed.function.arguments or "")["days"] in range(1, 10)
    history = [
        *MESSAGES,
        told.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "20 degrees"},
    ]
    again = client.chat.completions.create(
        **{**asked, "messages": history, "max_tokens": 4}
    )
    assert again.usage is not None
    assert again.usage.completion_tokens == 4


def errors(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "messages": MESSAGES, "max_tokens": 4}
    for fields, param in (
        ({"n": 17}, "n"),
        ({"temperature": -1}, "temperature"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"verbosity": "high"}, "verbosity"),
        ({"extra_body": {"unknown": 1}}, "unknown"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "?"}}},
            "response_format.json_schema.name",
        ),
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(**asked, **fields)
        assert caught.value.param == param
        assert caught.value.code
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=MODEL, prompt=[100] * 5000)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gpt-9", prompt="x")


def extensions(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL,
        prompt=PROMPT,
        max_tokens=3,
        extra_body={"explain": True, "trace": True, "top_k": 5},
    )
    assert answer.model_extra is not None
    own = answer.model_extra["p2pmoe"]
    # A step for each pass that gave tokens: one with accepted drafts gives several.
    gave = [n for one in own["passes"] if (n := one.get("n_committed", 0))]
    assert sum(gave) == 3
    assert len(own["steps"]) == len(gave)
    assert own["steps"][-1]["seconds"] > 0
    assert all(len(bytes.fromhex(hash_[3])) == 8 for hash_ in own["hashes"])


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        *(models, chat, completions, choices, logprobs, echo, biases, formats),
        *(tools, errors, extensions),
    )
}
