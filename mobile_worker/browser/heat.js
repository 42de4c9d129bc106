/**
 * Heat seen by the kernel: work of one size takes longer than it did at first. Pure.
 *
 * Slower than 1.5 times for 10 s: compute half of the time, until below 1.3 for a minute;
 * than 2 times: rest for 5 minutes. Times are monotonic seconds. Reference:
 * governor/slowdown.py, latch.py, policy.py.
 */
function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Closes after so long of bad and opens after so long of good: no flapping. */
function latch(close_after_s, open_after_s) {
  let is_closed = false;
  let since = null;
  return (now, is_bad, is_good) => {
    since = (is_closed ? is_good : is_bad) ? (since ?? now) : null;
    if (since !== null && now - since >= (is_closed ? open_after_s : close_after_s)) {
      is_closed = !is_closed;
      since = null;
    }
    return is_closed;
  };
}

export class Heat {
  #first = new Map(); // size -> times of the first calls, by which others are judged
  #recent = []; // [when, how many times as long]
  #warm = latch(10, 60);
  #hot = latch(0, 300);

  /** Note that so many multiply-adds took so long. */
  computed(now, n_macs, compute_us) {
    if (n_macs <= 0 || compute_us <= 0) return;
    const size = Math.floor(Math.log2(n_macs));
    const first = this.#first.get(size) ?? [];
    this.#first.set(size, first);
    const mac_us = compute_us / n_macs;
    if (first.length < 32) first.push(mac_us);
    else this.#recent.push([now, mac_us / median(first)]);
  }

  /** The median factor of the last minute; null: too little is known. */
  factor(now) {
    this.#recent = this.#recent.filter(([when]) => when >= now - 60).slice(-512);
    if (this.#recent.length < 24) return null;
    return median(this.#recent.map(([, factor]) => factor));
  }

  /** The part of the time in which to compute: 1, 0.5 or 0. */
  duty(now) {
    const factor = this.factor(now) ?? 0;
    const is_warm = this.#warm(now, factor > 1.5, factor < 1.3);
    if (this.#hot(now, factor > 2, factor <= 2)) return 0;
    return is_warm ? 0.5 : 1;
  }
}
