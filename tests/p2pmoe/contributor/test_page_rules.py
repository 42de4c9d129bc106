"""The local page: what it tells whom, and that no other website reaches it."""

import json

import pytest

from p2pmoe.contributor.desk import Desk
from p2pmoe.contributor.page_rules import Ask, LocalPage
from tests.support.worker_controls import worker_controls

TOKEN = "t" * 32
HOST = "127.0.0.1:8377"
RIGHT = {"host": HOST, "authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def page() -> LocalPage:
    controls, _, _ = worker_controls()
    return LocalPage(
        desk=Desk(controls=controls),
        token=TOKEN,
        html=b"<script>1</script><style>a{}</style>",
        earnings=lambda: {"days": []},
    )


def asked(page: LocalPage, path: str, method: str = "GET", **more: object):
    headers = more.pop("headers", RIGHT)
    body = more.pop("body", b"")
    answer = page.answer(Ask(method=method, path=path, headers=headers, body=body))
    is_json = answer.content_type == "application/json"
    return answer.status, json.loads(answer.body) if is_json else answer


def test_the_page_itself_holds_no_secret_and_its_policy_is_strict(page) -> None:
    status, answer = asked(page, "/", headers={"host": HOST})
    assert status == 200
    assert TOKEN.encode() not in answer.body
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_with_the_token_it_tells_and_steers(page) -> None:
    assert asked(page, "/state")[1]["state"] == "ready"
    assert asked(page, "/state?x=1")[0] == 200
    assert asked(page, "/earnings")[1] == {"days": []}
    assert asked(page, "/limits")[1]["limits"]
    body = b'{"for_s": 60}'
    assert asked(page, "/pause", "POST", body=body)[1]["state"] == "paused_user"
    assert asked(page, "/resume", "POST")[1]["state"] == "ready"


@pytest.mark.parametrize(
    "given", [None, "", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer \xff"]
)
@pytest.mark.parametrize("path", ["/state", "/limits", "/earnings", "/none"])
def test_without_it_nothing(page, path, given) -> None:
    headers = {"host": HOST} | ({} if given is None else {"authorization": given})
    status, body = asked(page, path, headers=headers)
    assert status == 401
    assert set(body) == {"error"}
    assert asked(page, "/drain", "POST", headers=headers)[0] == 401
    assert not page.desk.controls.stop.is_set()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8377", "", "127.0.0.2"])
def test_a_name_of_somebody_elses_is_refused(page, host) -> None:
    assert asked(page, "/state", headers=RIGHT | {"host": host})[0] == 403
    assert asked(page, "/", headers={"host": host})[0] == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (f"http://{HOST}", 200),
        ("http://127.0.0.1:1", 403),
        ("https://evil.example", 403),
        ("null", 403),
    ],
)
def test_another_sites_script_is_refused(page, origin, status) -> None:
    headers = RIGHT | {"origin": origin}
    assert asked(page, "/pause", "POST", headers=headers)[0] == status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 404),
        ("POST", "/stop", 404),
        ("POST", "/clear-cache", 404),
        ("POST", "/state", 404),
        ("GET", "/pause", 404),
        ("PUT", "/state", 405),
        ("HEAD", "/state", 200),
    ],
)
def test_nothing_else_is_there(page, method, path, status) -> None:
    assert asked(page, path, method)[0] == status


@pytest.mark.parametrize(
    "body", [b"x", b"[]", b'{"for_s": "x"}', b'{"y": 1}', b"\xff", b"[" * 4000]
)
def test_a_body_that_cannot_be_is_one_line(page, body) -> None:
    status, told = asked(page, "/pause", "POST", body=body)
    assert status == 409
    assert "\n" not in told["error"]
