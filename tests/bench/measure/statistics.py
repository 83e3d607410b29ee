# SPDX-License-Identifier: BSD-3-Clause
"""The arithmetic of the benchmark: numbers in, numbers out.

A value of None means "not known in this run"; it is left out of everything.
"""

# with fewer runs a best quartile is said to be of few
QUARTILE_RUNS = 5
# visits from this bucket on are slow: 64 us and more
SLOW_BUCKET = 7


def known(values):
    return sorted(value for value in values if value is not None)


def quantile(values, share):
    """Linear between the two nearest; None if nothing is known."""
    values = known(values)
    if not values:
        return None
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def median(values):
    return quantile(values, 0.5)


def best_quartile(values, more_is_better):
    """What the best quarter of the runs reaches at least."""
    return quantile(values, 0.75 if more_is_better else 0.25)


def times_better(value, base, more_is_better):
    """How many times better value is than base; below 1 it is worse. None
    where that cannot be said."""
    if value is None or base is None:
        return None
    if not more_is_better:
        value, base = base, value
    return value / base if base else None


def slow_quantile_us(buckets, share):
    """A quantile of the slow visits of a histogram of the guest: bucket b
    has those from 2^(b-1) to 2^b us. Within a bucket visits are taken to be
    spread evenly, by their logarithms. None if none was slow."""
    slow = list(enumerate(buckets))[SLOW_BUCKET:]
    total = sum(count for _, count in slow)
    if not total:
        return None
    left = share * total
    for bucket, count in slow:
        if count and left <= count:
            return 2.0 ** (bucket - 1 + left / count)
        left -= count
    return 2.0 ** (len(buckets) - 1)


def add_buckets(reports):
    """One histogram of several."""
    return [sum(counts) for counts in zip(*reports)]


def level_at(points, when):
    """A counter's value at that time, linear between points (time, value) in
    order of time; None outside of them."""
    for (time0, value0), (time1, value1) in zip(points, points[1:]):
        if time0 <= when <= time1:
            if time1 == time0:
                return value1
            share = (when - time0) / (time1 - time0)
            return value0 + (value1 - value0) * share
    return None


def rate_within(points, start, end, least):
    """Counts per second in the part of start to end that points cover; None
    if that part is not longer than least."""
    if not points:
        return None
    start, end = max(start, points[0][0]), min(end, points[-1][0])
    if end - start <= least:
        return None
    return (level_at(points, end) - level_at(points, start)) / (end - start)
