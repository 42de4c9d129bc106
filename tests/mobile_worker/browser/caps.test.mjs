import assert from "node:assert/strict";
import { test } from "node:test";

import { began, caps, ended } from "../../../mobile_worker/browser/caps.js";

const MIB = 1 << 20;
const AGENTS = {
  iphone: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Safari",
  mac: "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Safari/605.1",
  pixel: "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 Chrome/156.0 Mobile Safari",
  linux: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156.0 Safari/537.36",
};

test("memory by platform", () => {
  const of = (agent, more) => caps({ agent: AGENTS[agent], n_cores: 8, ...more });
  assert.deepEqual(of("iphone"), { platform: "ios", n_workers: 2, worker_bytes: 128 * MIB });
  assert.deepEqual(of("mac", { n_touch: 5 }), of("iphone")); // an iPad
  assert.deepEqual(of("pixel", { n_touch: 5 }), {
    platform: "android", n_workers: 4, worker_bytes: 128 * MIB,
  });
  for (const agent of ["mac", "linux"]) {
    assert.deepEqual(of(agent), {
      platform: "desktop", n_workers: 4, worker_bytes: 256 * MIB,
    });
  }
  assert.equal(caps({ agent: "" }).n_workers, 1);
  assert.equal(of("linux", { n_cores: 1 }).worker_bytes, 1024 * MIB);
  assert.equal(of("linux", { n_cores: 3 }).n_workers, 1);
});

test("halvings", () => {
  const iphone = { agent: AGENTS.iphone, n_cores: 4 };
  assert.equal(caps(iphone, 1).worker_bytes, 64 * MIB);
  assert.equal(caps(iphone, 3).worker_bytes, 16 * MIB);
});

test("a run that was cut off halves the next, one that ended well takes it back", () => {
  let [n, note] = began(null);
  assert.equal(n, 0);
  [n, note] = began(ended(note));
  assert.equal(n, 0);
  for (const expected of [1, 2, 3, 3]) {
    [n, note] = began(note);
    assert.equal(n, expected);
  }
  for (const expected of [2, 1, 0, 0]) {
    [n, note] = began(ended(note));
    assert.equal(n, expected);
  }
});

test("a note that is none begins anew", () => {
  for (const note of ["", "4 runs", "-1", "1 runs!", "{}", "runs"]) {
    assert.deepEqual(began(note), [0, "0 runs"]);
    assert.equal(ended(note), "0");
  }
});
