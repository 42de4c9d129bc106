import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pmoe.market.errors import MemoryFileBroken
from p2pmoe.market.pricing import memory as memory_module
from p2pmoe.market.pricing.memory import encode_models, parse_models, read_models
from tests.p2pmoe.market.pricing.test_model import EPOCH_US, tell
from tests.support.market_prices import EXPERTS, hold, model_of, share_of

NAME = b"m" * 32


@given(st.integers(0, 1 << 32))
@settings(max_examples=30)
def test_a_market_that_restarts_goes_on_as_it_was(seed: int) -> None:
    rng, model = random.Random(seed), model_of()
    for epoch in range(1, 6):
        tell(model, rng)
        model.look(epoch * EPOCH_US)
    again = parse_models(encode_models({NAME: model}))[NAME]
    assert again.rows == model.rows
    assert again.table == model.table
    assert (again.epoch, again.base_uc, again.as_of_us) == (1, 100, 5 * EPOCH_US)
    assert again.paid.units == model.paid.units
    assert again.paid.counted_to_us == model.paid.counted_to_us
    assert list(again.holdings.drops) == list(model.holdings.drops)


def document() -> dict:
    model = model_of()
    hold(model.holdings, "a", share_of("home", 1))
    hold(model.holdings, "a", share_of("home", 2), 5)
    return json.loads(encode_models({NAME: model}))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 2),
        (("models",), []),
        (("models", "zz"), {}),
        (("models", "ab"), {}),
        (("models", NAME.hex(), "epoch"), -1),
        (("models", NAME.hex(), "epoch"), 1 << 32),
        (("models", NAME.hex(), "epoch"), 1.5),
        (("models", NAME.hex(), "epoch"), True),
        (("models", NAME.hex(), "base_uc"), 1 << 60),
        (("models", NAME.hex(), "experts", 0), [0, 0]),
        (("models", NAME.hex(), "experts", 0, 6), 0),
        (("models", NAME.hex(), "experts", 0, 2), 65),
        (("models", NAME.hex(), "experts", 0, 0), 7),
        (("models", NAME.hex(), "drops", 0, 1), 5),
        (("models", NAME.hex(), "drops", 0, 1), "d" * 201),
        (("models", NAME.hex(), "drops", 0, 3), "9"),
    ],
)
def test_any_other_file_is_broken(path, value, tmp_path: Path) -> None:
    told = part = document()
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    file = tmp_path / "market-prices.json"
    file.write_text(json.dumps(told))
    with pytest.raises(MemoryFileBroken, match=str(file)) as caught:
        read_models(file)
    assert "remove the file" in caught.value.advice


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", "[" * 9999, "1e999"])
def test_any_other_text_is_broken(text: str) -> None:
    with pytest.raises(MemoryFileBroken):
        parse_models(text)


def test_no_file_is_no_prices_and_a_folder_is_named(tmp_path: Path) -> None:
    assert read_models(tmp_path / "none") == {}
    with pytest.raises(MemoryFileBroken, match="cannot read"):
        read_models(tmp_path)


def test_the_models_looked_at_longest_ago_go_first(monkeypatch) -> None:
    monkeypatch.setattr(memory_module, "_MAX_MODELS", 2)
    models = {bytes([n]) * 32: model_of(EXPERTS[:1]) for n in range(3)}
    for n, model in enumerate(models.values()):
        model.as_of_us = 5 - n
    assert list(parse_models(encode_models(models))) == [bytes([1]) * 32, bytes(32)]
