import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { canary_rows, shake256 } from "../../../mobile_worker/browser/canary_rows.js";
import { x_hash } from "../../../mobile_worker/browser/expert.js";
import { bytes, hex, vectors } from "./compute_support.mjs";

test("SHAKE-256 as OpenSSL has it", () => {
  for (const length of [0, 1, 36, 134, 135]) {
    const text = Uint8Array.from({ length }, (_, i) => (i * 37) & 255);
    for (const n of [1, 135, 136, 137, 1000]) {
      const expected = createHash("shake256", { outputLength: n }).update(text).digest("hex");
      assert.equal(hex(shake256(text, n)), expected, `${length} to ${n}`);
    }
  }
});

test("the golden rows of canaries", () => {
  for (const golden of vectors("canary.json")) {
    const { n_rows, n_embd } = golden;
    const expert = golden.layer * 65536 + golden.index;
    const rows = canary_rows(bytes(golden.seed), expert, n_rows, n_embd);
    assert.equal(hex(rows.coded.codes.slice(0, 32)), golden.codes);
    assert.equal(hex(rows.coded.scales.slice(0, 4)), golden.scales);
    assert.equal(hex(rows.floats.slice(0, 4)), golden.floats);
    assert.equal(hex(x_hash(rows, [...Array(n_rows).keys()])), golden.x_hash);
  }
});

test("rows that no canary has", () => {
  for (const [n_rows, n_embd] of [[0, 32], [65, 32], [1, 0], [1, 33], [1, -32]]) {
    assert.throws(
      () => canary_rows(new Uint8Array(32), 0, n_rows, n_embd),
      ({ kind }) => kind === "ShapeMismatch");
  }
});
