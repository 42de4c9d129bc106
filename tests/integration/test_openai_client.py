"""The official client against real processes: one alone, and a scattered backbone.

What it gets is the same from both: where experts are computed does not show.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import openai
import pytest
import trio

from tests.integration.test_bad_input_requests import Backbone
from tests.support.networks import network_running
from tests.support.openai_checks import CHECKS, POCKET, official
from tests.support.template_change import with_template
from tests.support.tool_templates import TOOL_TEMPLATES
from tests.support.trio_test import trio_test


def tooled(folder: Path) -> str:
    """The pocket model with a template that takes tools."""
    target = folder / "tooled.gguf"
    return str(with_template(POCKET, TOOL_TEMPLATES["hermes"], target))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    folder = tmp_path_factory.mktemp("openai")
    backbone = Backbone(folder, tooled(folder), "--ram", "300M")
    try:
        with official(backbone.url) as client:
            yield client
    finally:
        backbone.end()


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_the_official_client_with_one_process(client: openai.OpenAI, name: str) -> None:
    CHECKS[name](client)


@pytest.mark.slow
@trio_test
async def test_the_official_client_with_a_scattered_backbone(tmp_path: Path) -> None:
    async with network_running(
        tmp_path, model=tooled(tmp_path), apart=False
    ) as network:
        with official(network.api.url) as client:
            for check in CHECKS.values():
                await trio.to_thread.run_sync(partial(check, client))
        metrics = await network.metrics()
        assert metrics.total("p2pmoe_expert_calls_total", tier="hub") > 0
