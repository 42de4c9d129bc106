from p2pmoe.api.bodies import Answer, Bodies, CompletionKind
from p2pmoe.backbone.generation import (
    FinishReason,
    GenerationEnd,
    TierCalls,
    Timings,
    Usage,
)

ANSWER = Answer(
    finish=FinishReason.LENGTH,
    tokens=[5, 6],
    n_prompt=3,
    end=GenerationEnd(
        finish_reason=None,
        usage=Usage(cached_tokens=1, drafted_tokens=8),
        timings=Timings(decode_s=0.5, round_trips=3, calls=TierCalls(ram=1, edge=2)),
    ),
)


def bodies(kind: CompletionKind, *, include_usage: bool = False) -> Bodies:
    return Bodies(
        kind=kind, id="x-1", model="m", created_s=9, include_usage=include_usage
    )


def test_a_whole_chat_answer() -> None:
    body = bodies(CompletionKind.CHAT).whole("hi", ANSWER)
    assert body["object"] == "chat.completion"
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hi", "refusal": None},
            "logprobs": None,
            "finish_reason": "length",
        }
    ]
    assert body["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 1},
    }
    assert body["timings"]["tokens_per_s"] == 4.0
    extension = body["p2pmoe"]
    assert extension["calls"] == {"ram": 1, "disk": 0, "hub": 0, "edge": 2}
    assert extension["round_trips_per_token"] == 1.5
    assert extension["tokens"] == [5, 6]
    assert extension["drafted_tokens"] == 8


def test_a_whole_text_answer() -> None:
    body = bodies(CompletionKind.TEXT).whole("hi", ANSWER)
    assert body["object"] == "text_completion"
    assert body["choices"][0]["text"] == "hi"


def test_chat_chunks() -> None:
    made = bodies(CompletionKind.CHAT)
    first = made.piece("a", first=True)
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "a"}
    assert "usage" not in first
    assert made.piece("b", first=False)["choices"][0]["delta"] == {"content": "b"}
    last = made.last(ANSWER)
    assert last["choices"][0] == {
        "index": 0,
        "delta": {},
        "logprobs": None,
        "finish_reason": "length",
    }
    assert last["p2pmoe"]["round_trips"] == 3


def test_the_usage_chunk_has_no_choices() -> None:
    made = bodies(CompletionKind.TEXT, include_usage=True)
    assert made.piece("a", first=True)["usage"] is None
    assert made.piece("a", first=True)["choices"][0]["text"] == "a"
    chunk = made.usage(ANSWER)
    assert chunk["choices"] == []
    assert chunk["usage"]["total_tokens"] == 5
