"""The golden bytes of links and sessions: written by today's program."""

import json

from tests.vectors import make_hostile, make_protocol, make_sessions


def stored(make) -> object:
    return json.loads(make.FILE.read_text(encoding="utf-8"))


def test_the_program_still_writes_them() -> None:
    for make in (make_protocol, make_sessions):
        assert json.loads(json.dumps(make.golden())) == stored(make)


def test_the_verdicts_on_spoilt_bytes_are_the_same() -> None:
    assert json.loads(json.dumps(make_hostile.golden())) == stored(make_hostile)


def test_both_verdicts_occur_for_all_that_is_spoilt() -> None:
    found = stored(make_hostile)
    kinds = {**found.pop("messages"), **found}
    del kinds["amounts"]
    for name, cases in kinds.items():
        verdicts = {case[1] is None for case in cases}
        assert verdicts == {True, False}, name
    assert sum(map(len, kinds.values())) > 600
