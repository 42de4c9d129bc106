/** The worker's message loop, with a folder in memory and a fake page. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { canary_rows } from "../../../mobile_worker/browser/canary_rows.js";
import { ComputeWorker, worker_of } from "../../../mobile_worker/browser/compute_worker.js";
import { out_hash } from "../../../mobile_worker/browser/expert.js";
import { choose_module } from "../../../mobile_worker/browser/kernel.js";
import {
  MemoryFolder, bytes, floats, hex, load, number_of, vectors,
} from "./compute_support.mjs";

const { module } = await choose_module(load);
const GOLDEN = vectors("arithmetic/experts.json").filter(({ formats, n_embd }) =>
  n_embd === 64 && formats.every((name) => ["F32", "Q4_0", "Q8_0", "BF16"].includes(name)));

/** What a page knows of a golden expert: its shard, name, layout. */
function known(golden) {
  const parts = ["gate", "up", "down", "gate_bias", "up_bias", "down_bias"];
  const shard = bytes(parts.map((part) => golden[part] ?? "").join(""));
  const { n_embd, n_ff, alpha, limit } = golden;
  const layout = {
    formats: golden.formats.map(number_of), n_embd, n_ff, alpha, limit,
    kind: Number(golden.activation === "SWIGLU_OAI"), biased: Boolean(golden.gate_bias),
  };
  const name = createHash("sha256").update(shard).digest("hex");
  return { shard, what: { name, layout, n_bytes: shard.length } };
}

const KNOWN = GOLDEN.map(known);

function page({ folder = new MemoryFolder(), spoil = (raw) => raw } = {}) {
  const told = [];
  const source = async function* (name, first) {
    const { shard } = KNOWN.find(({ what }) => what.name === name);
    yield spoil(shard.slice(first));
  };
  const worker = new ComputeWorker((...each) => told.push(each), async () => folder, source);
  return async (ask, what = {}) => {
    told.length = 0;
    await worker.asked({ id: 5, ask, ...what });
    const [answer, transfer] = told.at(-1);
    assert.equal(answer.id, 5);
    assert.ok(transfer.every((each) => each === answer.results.buffer));
    return answer;
  };
}

const START = {
  module, n_bytes: 10 << 20, slot_bytes: 1 << 16, store_bytes: 1 << 20, index: 0,
  n_workers: 1, rate_ms: 1,
};

test("from start to served, and after a restart from the folder", async () => {
  const folder = new MemoryFolder();
  let ask = page({ folder });
  const started = await ask("start", START);
  assert.equal(started.self_test.length, 32);
  assert.ok(started.rate_macs_s > 0 && started.n_slots > 8);
  assert.ok(KNOWN.length >= 4);
  for (const { what } of KNOWN) {
    assert.deepEqual(await ask("load", what), { id: 5 });
    assert.deepEqual(await ask("load", what), { id: 5 });
  }
  assert.equal(folder.files.size, KNOWN.length);
  for (const [i, golden] of GOLDEN.entries()) {
    const calls = [{ name: KNOWN[i].what.name, rows: Uint32Array.of(0, 1) }];
    const rows = { n_rows: 2, n_embd: 64, coded: null, floats: floats(golden.x) };
    const { error, results } = await ask("compute", { dispatch: { ...rows, profile: 1, calls } });
    if (golden.formats[0].startsWith("Q")) {
      assert.equal(error, 5); // coded rows are missing
    } else {
      assert.equal(hex(results), golden.R16);
    }
  }
  ask = page({ folder, spoil: () => assert.fail("it was there already") });
  await ask("start", START);
  for (const { what } of KNOWN) assert.deepEqual(await ask("load", what), { id: 5 });
});

test("canaries", async () => {
  const ask = page();
  await ask("start", START);
  const { what } = KNOWN.find((each) => each.what.layout.formats[0] === 2);
  const canary = {
    name: what.name, expert: 65537, seed: new Uint8Array(32).fill(3), n_rows: 2,
    n_embd: 64, profile: 0,
  };
  assert.equal((await ask("canary", canary)).kind, "NotHeld");
  await ask("load", what);
  const { hash } = await ask("canary", canary);
  const calls = [{ name: what.name, rows: [0, 1] }];
  const dispatch = { ...canary_rows(canary.seed, 65537, 2, 64), profile: 0, calls };
  const { results } = await ask("compute", { dispatch });
  assert.equal(hex(hash), hex(out_hash(results)));
  assert.equal((await ask("canary", { ...canary, n_rows: 65 })).kind, "ShapeMismatch");
});

test("what cannot be loaded leaves its slot free", async () => {
  let is_spoilt = true;
  const spoil = (raw) => {
    if (is_spoilt) raw[7] ^= 1;
    return raw;
  };
  const ask = page({ spoil });
  const { n_slots } = await ask("start", { ...START, slot_bytes: 700_000 });
  assert.ok(n_slots < 4);
  const { what } = KNOWN[0];
  for (let i = 0; i < 4; i++) {
    assert.equal((await ask("load", what)).kind, "ShardCorrupt");
  }
  is_spoilt = false;
  assert.deepEqual(await ask("load", what), { id: 5 });
  assert.equal((await ask("load", { ...what, name: "a", n_bytes: 1 })).kind, "ShardMisfit");
  const wrong = { ...what.layout, formats: [9, 9, 9] };
  const other = { name: "b", n_bytes: 1, layout: wrong };
  assert.equal((await ask("load", other)).kind, "FormatUnsupported");
});

test("experts that are not leased any more leave their slots", async () => {
  const ask = page();
  const { n_slots } = await ask("start", { ...START, slot_bytes: 1_200_000 });
  assert.equal(n_slots, 1);
  const [{ what: one }, { what: other }] = KNOWN;
  await ask("load", one);
  assert.equal((await ask("load", other)).kind, "MemoryExhausted");
  await ask("keep", { names: [one.name] });
  assert.equal((await ask("load", other)).kind, "MemoryExhausted");
  await ask("keep", { names: [other.name] });
  assert.deepEqual(await ask("load", other), { id: 5 });
  const calls = [{ name: one.name, rows: [0] }];
  const dispatch = { n_rows: 1, n_embd: 64, coded: null, floats: null, profile: 1, calls };
  assert.equal((await ask("compute", { dispatch })).kind, "NotHeld");
});

test("what is not known is a fault of the page, in one line", async () => {
  const ask = page();
  assert.equal((await ask("dance")).kind, "Fault");
  assert.equal((await ask("start", { ...START, n_bytes: 1000 })).kind, "KernelUnavailable");
});

test("a shard has one worker of several", () => {
  const names = Array.from({ length: 400 }, (_, i) =>
    createHash("sha256").update(`${i}`).digest("hex"));
  const counts = [0, 0, 0, 0];
  for (const name of names) counts[worker_of(name, 4)]++;
  assert.ok(counts.every((n) => n > 60), `${counts}`);
});
