"""Where shards come from: other holders before the backbone, and never past a limit."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from mobile_worker import messages
from mobile_worker.links.memory import MemoryNode
from mobile_worker.links.node import NodeSettings
from mobile_worker.session.identity import Identity
from mobile_worker.shards.desk import answer_get, holders_blob
from relay.keys import PeerId
from relay.tokens import Role
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test
from tests.support.worker_stage import Party, Stage, open_stage


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


Bend = Callable[[messages.Blob], messages.Blob | None]


@asynccontextmanager
async def holder_on(
    stage: Stage, bend: Bend = lambda blob: blob
) -> AsyncIterator[Party]:
    """Run a worker that holds all shards; what it gives goes through `bend`."""
    settings = NodeSettings(identity=Identity.generate(), role=Role.WORKER)
    async with stage.network.open_node(settings, clock=stage.clock) as node:
        party = Party(node, lambda peer, message: answer(node, peer, message))

        def answer(node: MemoryNode, peer: PeerId, message: messages.Message) -> None:
            if isinstance(message, messages.Get):
                blob = bend(answer_get(message, stage.read_range))
                if blob is not None:
                    node.send(peer, blob)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(party.run)
            yield party
            nursery.cancel_scope.cancel()


def names(stage: Stage, *holders: Party) -> None:
    """Have the backbone name holders when it is asked who else has a shard."""
    before = stage.backbone.answer

    def answer(peer: PeerId, message: messages.Message) -> None:
        if isinstance(message, messages.Get) and not message.length:
            records = [holder.node.record.encoded for holder in holders]
            stage.backbone.node.send(peer, holders_blob(message, records))
        else:
            before(peer, message)

    stage.backbone.answer = answer


def n_bytes_asked(party: Party) -> int:
    return sum(get.length for get in party.all(messages.Get))


@trio_test(autojump=True)
async def test_who_holds_it_is_asked_and_the_backbone_gives_nothing(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage, holder_on(stage) as holder:
        names(stage, holder)
        async with stage.worker():
            await stage.held()
            assert n_bytes_asked(stage.backbone) == 0
            whole = sum(len(shard) for shard in stage.model.shards.values())
            assert n_bytes_asked(holder) == whole


@trio_test(autojump=True)
async def test_where_a_holder_is_silent_the_backbone_goes_on(
    tmp_path: Path,
) -> None:
    def nothing(_blob: messages.Blob) -> None:
        return None

    async with open_stage(tmp_path, experts=1) as stage:
        async with holder_on(stage, nothing) as silent:
            names(stage, silent)
            async with stage.worker():
                await stage.held()
                [size] = [len(stage.model.shards[each]) for each in stage.leased]
                assert n_bytes_asked(stage.backbone) == size
                assert n_bytes_asked(silent) == size


@trio_test(autojump=True)
async def test_b39_a_holder_that_lies_is_found_out_and_passed_over(
    tmp_path: Path,
) -> None:
    def wrong(blob: messages.Blob) -> messages.Blob:
        body = bytes(len(blob.body))
        return messages.Blob(
            request=blob.request,
            digest=blob.digest,
            offset=blob.offset,
            total=blob.total,
            error=blob.error,
            body=body,
        )

    async with open_stage(tmp_path) as stage, holder_on(stage, wrong) as liar:
        names(stage, liar)
        async with stage.worker() as running:
            await stage.held()
            assert running.facts[-1].n_held == 8
            assert stage.market.all(messages.Release) == []
            # At most as many as were under way together learned it by themselves.
            sizes = [len(shard) for shard in stage.model.shards.values()]
            assert n_bytes_asked(liar) <= 4 * max(sizes)
