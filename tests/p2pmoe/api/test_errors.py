import json
from http import HTTPStatus

import pytest

from p2pmoe.api.errors import (
    ApiRefusal,
    failure_body,
    failure_headers,
    failure_kind,
    failure_status,
    retry_headers,
)
from p2pmoe.backbone.generation import FailureKind, GenerationFailed
from p2pmoe.model.errors import CacheFull


def test_a_refusal_has_openais_shape() -> None:
    refusal = ApiRefusal("top_p must be a number", param="top_p", code="invalid_value")
    assert refusal.body() == {
        "error": {
            "message": "top_p must be a number",
            "type": "invalid_request_error",
            "param": "top_p",
            "code": "invalid_value",
        }
    }
    assert refusal.status == 400


def test_what_a_refusal_quotes_of_a_request_can_be_sent() -> None:
    refusal = ApiRefusal("x\ud800 is unknown", param="x\ud800")
    sent = json.dumps(refusal.body(), ensure_ascii=False).encode()
    assert json.loads(sent)["error"]["param"] == "x\\ud800"


@pytest.mark.parametrize(
    ("failure", "kind", "status"),
    [
        (GenerationFailed(FailureKind.UPSTREAM_LOST, "x"), "upstream_lost", 503),
        (GenerationFailed(FailureKind.OVERLOADED, "x"), "overloaded", 429),
        (GenerationFailed(FailureKind.DEADLINE, "x"), "deadline_exceeded", 503),
        (GenerationFailed(FailureKind.ARITHMETIC, "x"), "arithmetic_error", 500),
        (ValueError("/home/secret"), "internal_error", 500),
    ],
)
def test_failures(failure: Exception, kind: str, status: int) -> None:
    assert failure_kind(failure) == kind
    assert failure_status(failure) == HTTPStatus(status)


def test_who_may_come_again_is_told_when() -> None:
    full = GenerationFailed(FailureKind.OVERLOADED, "full", retry_s=2.25)
    assert failure_headers(full) == {"retry-after": "3"}
    error = failure_body(full)["error"]
    assert (error["type"], error["code"]) == ("overloaded", "rate_limit_exceeded")
    lost = GenerationFailed(FailureKind.UPSTREAM_LOST, "x")
    assert failure_headers(lost) == {"retry-after": "1"}
    assert failure_headers(ValueError()) == {}
    assert retry_headers(1e12) == {"retry-after": "3600"}


def test_what_can_never_be_held_is_the_callers_to_change() -> None:
    failure = CacheFull("9,000 tokens need more memory than there is")
    assert failure_status(failure) == HTTPStatus.BAD_REQUEST
    error = failure_body(failure)["error"]
    assert error["type"] == "invalid_request_error"
    assert error["code"] == "context_length_exceeded"
    assert failure_headers(failure) == {}


def test_internal_texts_are_not_told() -> None:
    assert "secret" not in str(failure_body(ValueError("/home/secret")))
    lost = GenerationFailed(FailureKind.UPSTREAM_LOST, "expert 3")
    assert "expert 3" in str(failure_body(lost))
