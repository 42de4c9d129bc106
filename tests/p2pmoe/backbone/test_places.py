"""Without being told otherwise a backbone is exact."""

from p2pmoe.backbone.places import ExpertPlaces
from p2pmoe.config import MissingPolicy
from tests.support.backbone_model import POCKET, local_side


def test_nothing_is_left_out_by_default() -> None:
    places = local_side(POCKET).places()
    assert isinstance(places, ExpertPlaces)
    assert places.missing is MissingPolicy.WAIT
    assert places.drop_bound == 0.0
    assert places.network is None


def test_the_options_policy_is_the_places() -> None:
    side = local_side(POCKET, missing=MissingPolicy.DROP, drop_bound=0.25)
    assert side.places().missing is MissingPolicy.DROP
    assert side.places().drop_bound == 0.25


def test_a_row_of_a_call_is_coded_both_ways() -> None:
    places = local_side(POCKET).places()
    n = places.n_embd
    assert places.row_bytes == (n + n // 32 * 4) + (2 * n + n // 32 * 4)
