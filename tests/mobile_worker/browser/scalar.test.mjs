/** The scalar reference gives the golden bytes, too. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { bytes, floats, hex, vectors } from "./compute_support.mjs";
import * as scalar from "./scalar.mjs";

const of_values = (values) => hex(Float32Array.from(values));

test("elementary functions", () => {
  const golden = vectors("arithmetic/elementary.json");
  const z = [...floats(golden.z)];
  for (const name of ["exp", "sigmoid", "silu"]) {
    assert.equal(of_values(z.map(scalar[name])), golden[name], name);
  }
});

test("activations", () => {
  const golden = vectors("arithmetic/activations.json");
  const u = floats(golden.u);
  for (const [kind, name] of ["SWIGLU", "SWIGLU_OAI"].entries()) {
    const activation = { kind, alpha: 1.702, limit: 7 };
    const found = [...floats(golden.g)].map((g, i) => scalar.activate(activation, g, u[i]));
    assert.equal(of_values(found), golden[name], name);
  }
});

test("block coding", () => {
  for (const golden of vectors("arithmetic/coding.json")) {
    for (const [q, name, Codes] of [[127, "R8", Int8Array], [32767, "R16", Int16Array]]) {
      const { codes, scales } = scalar.quantize_row(floats(golden.x), q);
      const found = hex(Codes.from(codes)) + of_values(scales);
      assert.equal(found, golden[name], `${golden.name} ${name}`);
    }
  }
});

test("experts of F32, Q4_0 and Q8_0", () => {
  const known = ["F32", "Q4_0", "Q8_0"];
  const cases = vectors("arithmetic/experts.json").filter(({ formats }) =>
    formats.every((name) => known.includes(name)));
  assert.equal(cases.length, 3);
  for (const golden of cases) {
    const { n_embd, n_ff } = golden;
    const matrix = (part, i, n_rows) => ({
      name: golden.formats[i], raw: bytes(golden[part]), n_rows,
      bias: golden[`${part}_bias`] && floats(golden[`${part}_bias`]),
    });
    const weights = {
      gate: matrix("gate", 0, n_ff), up: matrix("up", 1, n_ff),
      down: matrix("down", 2, n_embd),
    };
    const activation = { ...golden, kind: Number(golden.activation === "SWIGLU_OAI") };
    const x = floats(golden.x);
    const y = Array.from({ length: golden.n }, (_, i) =>
      scalar.expert_row(weights, activation, x.slice(i * n_embd, (i + 1) * n_embd)));
    assert.equal(of_values(y.flat()), golden.R32, golden.formats.join());
  }
});
