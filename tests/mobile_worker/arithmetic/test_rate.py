"""The rate is work divided by the median time of a call."""

import itertools

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.rate import fixed_expert, measure_rate, rate_of


def test_it_is_work_by_the_median_time() -> None:
    # now, start, then the ends of calls that take 1, 1, 7 (a moment's load), 1, 1 s
    ticks = itertools.chain([0.0, 0.0, 1.0, 2.0, 9.0, 10.0], itertools.repeat(11.0))
    expert = fixed_expert()
    rate = rate_of(
        NumpyKernel(), expert, 2, within_s=10.5, perf_counter=lambda: next(ticks)
    )
    assert rate == 3 * 2048 * 512 * 2


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


def test_a_rate_is_measured_briefly() -> None:
    assert measure_rate(NumpyKernel(), within_s=0.005) > 1_000_000
