import assert from "node:assert/strict";
import { test } from "node:test";

import { Heat } from "../../../mobile_worker/browser/heat.js";

/** Calls of one size, one a second, `factor` times as slow as usual; [heat, now]. */
function run(heat, now, seconds, factor, n_macs = 1000) {
  const duties = [];
  for (let i = 0; i < seconds; i++, now++) {
    heat.computed(now, n_macs, factor * n_macs);
    duties.push(heat.duty(now));
  }
  return [duties, now];
}

test("nothing is concluded from too little, or from nonsense", () => {
  const heat = new Heat();
  for (const [n_macs, us] of [[0, 5], [-1, 5], [5, 0], [5, -1]]) heat.computed(0, n_macs, us);
  let [, now] = run(heat, 0, 32, 1);
  assert.equal(heat.factor(now), null);
  [, now] = run(heat, now, 23, 9);
  assert.equal(heat.factor(now), null);
  run(heat, now, 1, 9);
  assert.equal(heat.factor(now), 9);
  assert.equal(heat.factor(now + 61), null);
});

test("each size is judged by its own first calls", () => {
  const heat = new Heat();
  let [, now] = run(heat, 0, 32, 1);
  [, now] = run(heat, now, 32, 8, 1 << 20); // larger ones are slower from the start
  const [duties, later] = run(heat, now, 40, 8, 1 << 20);
  assert.deepEqual(new Set(duties), new Set([1]));
  assert.equal(heat.factor(later), 1);
});

test("warm work is halved after 10 s and whole again after a minute below 1.3", () => {
  const heat = new Heat();
  let [, now] = run(heat, 0, 32, 1);
  let duties;
  [duties, now] = run(heat, now, 60, 1.6);
  assert.equal(duties.indexOf(0.5), 23 + 10); // 24 known, then 10 s
  assert.equal(duties.lastIndexOf(1), 32);
  [duties, now] = run(heat, now, 120, 1.4); // between the thresholds nothing changes
  assert.deepEqual(new Set(duties), new Set([0.5]));
  [duties, now] = run(heat, now, 150, 1);
  const back = duties.indexOf(1);
  assert.ok(back >= 60 && back < 100, `${back}`);
  assert.ok(duties.slice(back).every((duty) => duty === 1));
});

test("more than twice as slow is a rest of 5 minutes", () => {
  const heat = new Heat();
  let [, now] = run(heat, 0, 32, 1);
  const [duties, hot_at] = run(heat, now, 24, 2.5);
  assert.deepEqual(duties.slice(0, 23), Array(23).fill(1));
  assert.equal(duties[23], 0);
  const rest = Array.from({ length: 400 }, (_, i) => heat.duty(hot_at + i));
  const up = rest.findIndex((duty) => duty > 0);
  assert.ok(up >= 300 && up < 370, `${up}`); // 60 s until the heat is forgotten
  assert.ok(rest.slice(up).every((duty) => duty > 0));
});

test("readings that tremble around a limit do not flap", () => {
  const heat = new Heat();
  let [, now] = run(heat, 0, 32, 1);
  let n_changes = 0;
  let last = 1;
  for (let i = 0; i < 3600; i++, now++) {
    heat.computed(now, 1000, 1000 * (i % 50 < 25 ? 2.4 : 1.2));
    const duty = heat.duty(now);
    n_changes += duty !== last;
    last = duty;
  }
  assert.ok(n_changes <= 40, `${n_changes}`);
});
