import pytest
from starlette.requests import Request

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.gates import admit
from p2pmoe.api.keys import ApiKeys

KEYS = ApiKeys.parse("alice:one\nbob:two")


def request(path: str = "/v1/models", **headers: str) -> Request:
    lines = [(k.encode(), v.encode()) for k, v in headers.items()]
    scope = {"type": "http", "path": path, "headers": lines, "query_string": b""}
    return Request({**scope, "client": ("192.0.2.7", 1), "server": ("x", 80)})


def test_a_client_is_the_name_of_its_key() -> None:
    assert admit(request(authorization="Bearer two"), KEYS) == "bob"
    assert admit(request(authorization="bearer  one "), KEYS) == "alice"


def test_without_a_key_there_is_no_way_in_but_to_the_health_pages() -> None:
    for given in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic one"}):
        with pytest.raises(ApiRefusal) as caught:
            admit(request(**given), KEYS)
        assert (caught.value.status, caught.value.code) == (401, "invalid_api_key")
        assert caught.value.headers == {"www-authenticate": "Bearer"}
        assert admit(request("/readyz", **given), KEYS) == "192.0.2.7"


def test_without_keys_the_remote_host_is_the_client_and_names_are_local() -> None:
    for host in ("localhost:1", "127.0.0.1", "[::1]:8080"):
        assert admit(request(host=host), None) == "192.0.2.7"
    for host in ("evil.example", "127.0.0.1.evil.example", ""):
        with pytest.raises(ApiRefusal, match="not this machine"):
            admit(request(host=host), None)
