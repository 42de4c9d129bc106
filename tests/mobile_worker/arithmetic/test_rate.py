"""The rate is work divided by the median time of a call, in the best of three runs."""

import itertools

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.rate import fixed_expert, measure_rate, rate_of


def test_it_is_work_by_the_median_time_of_the_best_run() -> None:
    # Each run begins at its first tick; calls take 1, 1, 7 (a moment's load), then 2 s
    # each (other work all along), then one of 3 s.
    runs = ([0, 1, 2, 9], [10, 12, 14], [20, 23])
    ticks = iter(float(tick) for tick in itertools.chain(*runs))
    expert = fixed_expert()
    rate = rate_of(
        NumpyKernel(), expert, 2, within_s=9.0, perf_counter=lambda: next(ticks)
    )
    assert rate == 3 * 2048 * 512 * 2
    assert next(ticks, None) is None


def test_a_slow_kernel_is_called_three_times_all_the_same() -> None:
    ticks = itertools.count(0.0, 5.0)
    rate = rate_of(
        NumpyKernel(),
        fixed_expert(Format.F32),
        1,
        within_s=0.0,
        perf_counter=lambda: next(ticks),
    )
    assert rate == 3 * 2048 * 512 // 5
    assert next(ticks) == 30.0


def test_a_rate_is_measured_briefly() -> None:
    assert measure_rate(NumpyKernel(), within_s=0.005) > 1_000_000
