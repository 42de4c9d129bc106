"""Samples as Prometheus reads them."""

from p2pmoe.prometheus import render_metric


def test_a_total_is_a_counter_and_anything_else_a_gauge() -> None:
    assert render_metric("p2pmoe_a_total", [({}, 3)]) == (
        "# TYPE p2pmoe_a_total counter\np2pmoe_a_total 3\n"
    )
    assert render_metric("p2pmoe_b", []) == "# TYPE p2pmoe_b gauge\n"


def test_each_sample_has_its_labels_in_their_order() -> None:
    page = render_metric("p2pmoe_c", [({"y": "1", "x": "2"}, 0.5), ({"y": "3"}, 4)])
    assert page.splitlines()[1:] == ['p2pmoe_c{y="1",x="2"} 0.5', 'p2pmoe_c{y="3"} 4']
