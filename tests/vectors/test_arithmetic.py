import json

import pytest

from tests.vectors.make_arithmetic import FILES, FOLDER


@pytest.mark.parametrize("name", FILES)
def test_golden_bytes_are_what_the_oracle_gives(name: str) -> None:
    stored = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps(FILES[name]()))
