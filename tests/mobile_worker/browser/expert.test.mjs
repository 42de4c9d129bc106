/** Whole experts against the golden bytes, and dispatches as serve/compute.py has them. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { concat } from "../../../mobile_worker/browser/bytes.js";
import {
  Expert, coded_bytes, compute, out_hash, x_hash,
} from "../../../mobile_worker/browser/expert.js";
import { FORMATS } from "../../../mobile_worker/browser/formats.js";
import { shard_parts } from "../../../mobile_worker/browser/shard_file.js";
import {
  bytes, floats, hex, modules, number_of, vectors, workspace,
} from "./compute_support.mjs";
import { quantize_row } from "./scalar.mjs";

const EXPERTS = vectors("arithmetic/experts.json");
const PROFILES = ["R32", "R16", "R8"];
const of_kind = (kind) => (error) => error.kind === kind;
const sha = (...parts) =>
  createHash("sha256").update(concat(...parts)).digest("hex").slice(0, 32);

/** The rows of a golden expert, both coded and as floats. */
function rows_of({ x, n, n_embd }) {
  const values = floats(x);
  const { codes, scales } = quantize_row(values, 127);
  const coded = { codes: Int8Array.from(codes), scales: Float32Array.from(scales) };
  return { n_rows: n, n_embd, coded, floats: values };
}

function expert_of(space, golden) {
  const { n_embd, n_ff, alpha, limit } = golden;
  const layout = {
    formats: golden.formats.map(number_of), n_embd, n_ff, alpha, limit,
    kind: Number(golden.activation === "SWIGLU_OAI"),
    biased: golden.gate_bias !== undefined,
  };
  const parts = ["gate", "up", "down", "gate_bias", "up_bias", "down_bias"];
  const shard = bytes(parts.map((part) => golden[part] ?? "").join(""));
  assert.equal(shard_parts(layout).n_bytes, shard.length);
  const at = space.take(`${EXPERTS.indexOf(golden)}`, shard.length);
  space.bytes.set(shard, at);
  return new Expert(space, layout, at);
}

const every = ({ n }) => [...Array(n).keys()];

for (const { flavour, module } of await modules()) {
  test(`${flavour}: experts of every format, activation and profile`, () => {
    const formats = new Set(EXPERTS.flatMap((golden) => golden.formats));
    assert.equal(formats.size, FORMATS.size);
    for (const golden of EXPERTS) {
      const space = workspace(module);
      const expert = expert_of(space, golden);
      const rows = rows_of(golden);
      for (const [profile, name] of PROFILES.entries()) {
        const found = expert.compute_call(rows, every(golden), profile);
        assert.equal(hex(found), golden[name], `${golden.formats} ${name}`);
        const last = expert.compute_call(rows, [golden.n - 1], profile);
        const own = coded_bytes(profile, golden.n_embd);
        assert.equal(hex(last), golden[name].slice(-2 * own), `${golden.formats} alone`);
      }
    }
  });

  test(`${flavour}: a row is the same in a batch of any size, and in any portion`, () => {
    const golden = EXPERTS.find(({ formats }) => formats[0] === "NVFP4");
    const expert = expert_of(workspace(module), golden);
    const picked = Array.from({ length: 131 }, (_, i) => (i * 7) % golden.n);
    const own = 2 * coded_bytes(1, golden.n_embd);
    const found = hex(expert.compute_call(rows_of(golden), picked, 1));
    for (const [i, row] of picked.entries()) {
      const expected = golden.R16.slice(row * own, (row + 1) * own);
      assert.equal(found.slice(i * own, (i + 1) * own), expected);
    }
  });

  test(`${flavour}: a dispatch of several experts, and its hashes`, () => {
    const space = workspace(module);
    const alike = EXPERTS.filter(({ n_embd, n }) => n_embd === 64 && n === 2);
    assert.ok(alike.length > 8);
    const experts = alike.map((golden) => expert_of(space, golden));
    const rows = rows_of(alike[0]);
    const calls = alike.map((_, i) => ({ rows: Uint32Array.from([[0, 1], [1]][i % 2]) }));
    const outcome = compute({ ...rows, profile: 1, calls }, experts);
    assert.equal(outcome.error, 0, outcome.reason);
    assert.equal(outcome.n_rows, calls.reduce((n, call) => n + call.rows.length, 0));
    assert.ok(outcome.compute_us >= 0 && Number.isInteger(outcome.compute_us));
    const each = experts.map((expert, i) => expert.compute_call(rows, calls[i].rows, 1));
    assert.equal(hex(outcome.results), each.map(hex).join(""));
    assert.equal(hex(each[0]), alike[0].R16);
    outcome.hashes.forEach(({ out }, i) => assert.equal(hex(out), sha(each[i])));
    const { codes, scales } = rows.coded;
    const raw = (array) => new Uint8Array(array.slice().buffer);
    assert.equal(
      hex(outcome.hashes[0].x), sha(raw(codes), raw(scales), raw(rows.floats)));
    const last = [codes.slice(64), scales.slice(2), rows.floats.slice(64)];
    assert.equal(hex(outcome.hashes[1].x), sha(...last.map(raw)));
  });

  test(`${flavour}: what is not finite ends the call with ARITH`, () => {
    const space = workspace(module);
    const golden = EXPERTS.find(({ formats }) => formats.every((each) => each === "F32"));
    const expert = expert_of(space, golden);
    const calls = [{ rows: [0] }];
    const outcome = (changes, profile = 1) =>
      compute({ ...rows_of(golden), ...changes, profile, calls }, [expert]);
    const { floats: x } = rows_of(golden);
    const bad = x.slice();
    bad[golden.n_embd] = Infinity; // of a row that no call picks
    assert.equal(outcome({ floats: bad }).error, 1);
    assert.equal(outcome({ floats: x.map(() => 3e38) }).error, 1);
    const { results, n_rows, hashes, reason } = outcome({ floats: x.map(() => 3e38) }, 0);
    assert.deepEqual([results.length, n_rows, hashes.length], [0, 0, 0]);
    assert.ok(reason && !reason.includes("\n"));
    assert.equal(outcome({}).error, 0);
  });

  test(`${flavour}: a result that no code can hold is ARITH but for R32`, () => {
    const space = workspace(module);
    const layout = {
      formats: [0, 0, 0], n_embd: 32, n_ff: 32, kind: 0, alpha: 1, limit: 1, biased: true,
    };
    const at = space.take("x", shard_parts(layout).n_bytes);
    const { matrices } = shard_parts(layout, at);
    const largest = new Float32Array(Uint32Array.of(0x7f7fffff).buffer)[0];
    space.floats.fill(largest, matrices[2].bias / 4, matrices[2].bias / 4 + 32);
    const expert = new Expert(space, layout, at);
    const rows = { n_rows: 1, n_embd: 32, coded: null, floats: new Float32Array(32) };
    const fits = [0, 1, 2].map((profile) =>
      compute({ ...rows, profile, calls: [{ rows: [0] }] }, [expert]).error);
    const q = [0, 32767, 127];
    const expected = q.map((each) =>
      each && !(Math.fround(Math.fround(largest / each) * each) < Infinity) ? 1 : 0);
    assert.deepEqual(fits, expected);
    assert.ok(expected.includes(1), "one of the profiles must round up");
  });

  test(`${flavour}: rows that no coding gives, or that do not fit, are BAD_REQUEST`, () => {
    const golden = EXPERTS.find(({ formats }) => formats.every((each) => each === "Q8_0"));
    const expert = expert_of(workspace(module), golden);
    const rows = rows_of(golden);
    const error_of = (changes) =>
      compute({ ...rows, ...changes, profile: 1, calls: [{ rows: [0] }] }, [expert]).error;
    const changed = (array, at, value) => Object.assign(array.slice(), { [at]: value });
    const { codes, scales } = rows.coded;
    assert.equal(error_of({}), 0);
    assert.equal(error_of({ floats: null }), 0);
    for (const coded of [
      null, { codes: changed(codes, 5, -128), scales },
      { codes: changed(codes, codes.length - 1, -128), scales },
      ...[-1, NaN, Infinity].map((bad) => ({ codes, scales: changed(scales, 3, bad) })),
    ]) {
      assert.equal(error_of({ coded }), 5);
    }
    assert.equal(error_of({ n_embd: 32 }), 5);
    assert.equal(error_of({ coded: { codes, scales: changed(scales, 0, -0) } }), 0);
  });

  test(`${flavour}: a trap is no answer`, () => {
    const golden = EXPERTS[0];
    const space = workspace(module);
    expert_of(space, golden);
    const layout = { formats: [0, 0, 0], n_embd: 64, n_ff: 32, kind: 0, alpha: 1, limit: 1 };
    const outside = new Expert(space, layout, space.bytes.length - 64);
    const dispatch = { ...rows_of(golden), profile: 0, calls: [{ rows: [0] }] };
    assert.throws(() => compute(dispatch, [outside]), of_kind("KernelUnavailable"));
  });

  test(`${flavour}: rows wider than the values' room`, () => {
    const layout = {
      formats: [0, 0, 0], n_embd: 1 << 17, n_ff: 32, kind: 0, alpha: 1, limit: 1,
    };
    const expert = new Expert(workspace(module), layout, 0);
    const n_embd = 1 << 17;
    const rows = { n_rows: 1, n_embd, coded: null, floats: new Float32Array(n_embd) };
    assert.throws(() => expert.compute_call(rows, [0], 0), of_kind("ShapeMismatch"));
  });
}

test("hashes of rows in one form alone", () => {
  const x = Float32Array.from({ length: 64 }, (_, i) => i);
  const raw = new Uint8Array(x.buffer);
  const rows = { n_rows: 2, n_embd: 32, coded: null, floats: x };
  assert.equal(hex(x_hash(rows, [0, 1])), sha(raw));
  assert.equal(hex(x_hash(rows, [1])), sha(raw.subarray(128)));
  assert.equal(hex(out_hash(raw)), sha(raw));
});
