from p2pmoe.api.metrics import ApiCounters, metrics_page


def test_the_page_shows_all_counters_and_other_pages() -> None:
    counters = ApiCounters()
    counters.answered("/v1/completions", "200")
    counters.answered("/v1/completions", "200")
    counters.delivered(3, 5)
    counters.active = 1
    page = metrics_page(counters, [lambda: "other 1", lambda: "more 2\n"])
    assert (
        'p2pmoe_api_requests_total{route="/v1/completions",outcome="200"} 2\n' in page
    )
    assert 'p2pmoe_api_tokens_total{kind="completion"} 5\n' in page
    assert "p2pmoe_api_requests_active 1\n" in page
    assert page.endswith("other 1\nmore 2\n")
