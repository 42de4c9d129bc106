from p2pmoe.api.answers import Answer, ChoiceEnd, Piece
from p2pmoe.api.bodies import Bodies, CompletionKind
from p2pmoe.api.logprobs import ScoredToken
from p2pmoe.backbone.generation import (
    FinishReason,
    GenerationEnd,
    StepFigures,
    TierCalls,
    Timings,
    TokenLogprobs,
    Usage,
)
from p2pmoe.text.token_places import PlacedToken
from p2pmoe.text.tool_calls.calls import CalledTool
from tests.support.api import small_tokenizer

TOKENIZER = small_tokenizer()


def ended(index: int = 0, finish: FinishReason = FinishReason.LENGTH) -> ChoiceEnd:
    return ChoiceEnd(
        index=index,
        prompt=0,
        finish=finish,
        tokens=[5, 6],
        end=GenerationEnd(
            finish_reason=None,
            usage=Usage(cached_tokens=1, drafted_tokens=8),
            timings=Timings(
                decode_s=0.5, round_trips=3, calls=TierCalls(ram=1, edge=2)
            ),
        ),
    )


ANSWER = Answer(choices=[ended()], n_prompt=3)
CALL = CalledTool("weather", '{"city": "Bern"}')


def bodies(kind: CompletionKind, **changes: bool) -> Bodies:
    return Bodies(
        kind=kind,
        id="x-1",
        model="m",
        created_s=9,
        tokenizer=TOKENIZER,
        new_call_id=lambda: "call_7",
        **changes,
    )


def test_a_whole_chat_answer() -> None:
    body = bodies(CompletionKind.CHAT).whole([Piece(text="hi")], ANSWER)
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
    assert body["p2pmoe"]["tokens"] == [5, 6]


def test_calls_and_thoughts_of_a_whole_answer() -> None:
    answer = Answer(choices=[ended(finish=FinishReason.TOOL_CALLS)], n_prompt=3)
    body = bodies(CompletionKind.CHAT).whole(
        [Piece(thoughts="hm", calls=(CALL,))], answer
    )
    assert body["choices"][0]["finish_reason"] == "tool_calls"
    assert body["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {
                "id": "call_7",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Bern"}'},
            }
        ],
    }


def test_a_whole_text_answer_of_two_choices() -> None:
    both = Answer(choices=[ended(0), ended(1)], n_prompt=3)
    body = bodies(CompletionKind.TEXT).whole([Piece(text="a"), Piece(text="b")], both)
    assert body["object"] == "text_completion"
    assert [(c["index"], c["text"]) for c in body["choices"]] == [(0, "a"), (1, "b")]
    assert body["usage"]["completion_tokens"] == 4
    assert body["usage"]["total_tokens"] == 7


def test_chat_chunks() -> None:
    made = bodies(CompletionKind.CHAT)
    first = made.piece(1, Piece(text="a"), first=True)
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["index"] == 1
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "a"}
    assert "usage" not in first
    assert "p2pmoe" not in first
    delta = made.piece(0, Piece(text="b"), first=False)["choices"][0]["delta"]
    assert delta == {"content": "b"}
    last = made.last(ended())
    assert last["choices"][0] == {
        "index": 0,
        "delta": {},
        "logprobs": None,
        "finish_reason": "length",
    }
    assert last["p2pmoe"]["round_trips"] == 3


def test_chunks_with_calls_and_thoughts() -> None:
    made = bodies(CompletionKind.CHAT)
    chunk = made.piece(0, Piece(calls=(CALL, CALL)), first=False, n_calls=1)
    calls = chunk["choices"][0]["delta"]["tool_calls"]
    assert [call["index"] for call in calls] == [1, 2]
    assert calls[0]["function"]["name"] == "weather"
    thought = made.piece(0, Piece(thoughts="hm"), first=False)
    assert thought["choices"][0]["delta"] == {"reasoning_content": "hm"}


def test_log_probabilities_stand_in_each_chunk_and_not_in_the_last() -> None:
    placed = PlacedToken(index=0, token=100, start=0, piece=b"a")
    scored = ScoredToken(placed=placed, score=TokenLogprobs(token=100, logprob=-0.5))
    made = bodies(CompletionKind.CHAT, has_logprobs=True)
    chunk = made.piece(0, Piece(text="a", scored=(scored,)), first=True)
    assert chunk["choices"][0]["logprobs"]["content"][0]["bytes"] == [97]
    assert made.last(ended())["choices"][0]["logprobs"] is None
    made = bodies(CompletionKind.TEXT, has_logprobs=True)
    chunk = made.piece(0, Piece(text="a", scored=(scored,)), first=True)
    assert chunk["choices"][0]["logprobs"]["token_logprobs"] == [-0.5]


def test_steps_are_told_where_they_were_asked_for() -> None:
    step = StepFigures(calls=TierCalls(hub=2), seconds=0.5)
    chunk = bodies(CompletionKind.TEXT).piece(0, Piece(steps=(step,)), first=True)
    assert chunk["p2pmoe"]["steps"][0]["calls"]["hub"] == 2


def test_the_usage_chunk_has_no_choices() -> None:
    made = bodies(CompletionKind.TEXT, include_usage=True)
    assert made.piece(0, Piece(text="a"), first=True)["usage"] is None
    assert made.piece(0, Piece(text="a"), first=True)["choices"][0]["text"] == "a"
    chunk = made.usage(ANSWER)
    assert chunk["choices"] == []
    assert chunk["usage"]["total_tokens"] == 5
