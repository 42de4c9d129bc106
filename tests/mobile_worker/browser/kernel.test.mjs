/** Both modules give the golden bytes; an instance keeps to its memory. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { FORMATS, is_integer, matrix_bytes } from "../../../mobile_worker/browser/formats.js";
import {
  ACTIVATE, CHECK, CODE, MULTIPLY, PREPARE, Workspace, choose_module,
} from "../../../mobile_worker/browser/kernel.js";
import {
  bytes, floats, hex, load, modules, number_of, vectors, workspace,
} from "./compute_support.mjs";

const of_kind = (kind) => (error) => error.kind === kind && !error.message.includes("\n");

function put(space, text) {
  const raw = bytes(text);
  const at = space.place(raw.length);
  space.bytes.set(raw, at);
  return at;
}

/** The rows of a golden case, ready for products. */
function put_rows(space, golden) {
  if (golden.x !== undefined) return put(space, golden.x);
  const { n, n_cols } = golden;
  const [codes, scales] = [bytes(golden.codes), bytes(golden.scales)];
  const at = space.place((n * n_cols * 9) / 8);
  for (let i = 0; i < n; i++) {
    const own = at + (i * n_cols * 9) / 8;
    space.bytes.set(codes.subarray(i * n_cols, (i + 1) * n_cols), own);
    space.bytes.set(scales.subarray((i * n_cols) / 8, ((i + 1) * n_cols) / 8), own + n_cols);
  }
  const ready = space.place(((n * n_cols) / 32) * 112);
  space.step(PREPARE, at, n, n_cols, ready);
  return ready;
}

function product(space, golden) {
  const { n_rows, n_cols, n, raw } = golden;
  const format = number_of(golden.format);
  assert.equal(matrix_bytes(format, n_rows, n_cols), raw.length / 2);
  assert.equal(is_integer(format), golden.codes !== undefined);
  space.begin();
  const x = put_rows(space, golden);
  const y = space.place(4 * n * n_rows);
  space.step(MULTIPLY, format, put(space, raw), n_rows, n_cols, x, n, y, n_rows);
  space.run();
  return space.floats.slice(y / 4, y / 4 + n * n_rows);
}

for (const { flavour, module } of await modules()) {
  test(`${flavour}: products of every format`, () => {
    const space = workspace(module);
    const cases = vectors("arithmetic/products.json");
    assert.equal(new Set(cases.map(({ format }) => format)).size, FORMATS.size);
    for (const golden of cases) {
      const { format, kind, n_rows } = golden;
      assert.equal(hex(product(space, golden)), golden.result, `${format} ${kind} ${n_rows}`);
    }
  });

  test(`${flavour}: what has no result`, () => {
    const space = workspace(module);
    for (const golden of vectors("arithmetic/refused.json")) {
      if (golden.error === "CodeRefused") {
        assert.throws(() => product(space, golden), of_kind("CodeRefused"));
        continue;
      }
      const found = [...product(space, golden)];
      const bad = found.map((each) => !Number.isFinite(each));
      assert.deepEqual(bad, found.map((_, i) => i % golden.n_rows === golden.bad_row));
    }
  });

  test(`${flavour}: activations`, () => {
    const space = workspace(module);
    const golden = vectors("arithmetic/activations.json");
    const n = golden.g.length / 8;
    for (const [kind, name] of ["SWIGLU", "SWIGLU_OAI"].entries()) {
      space.begin();
      const [g, u] = [put(space, golden.g), put(space, golden.u)];
      const numbers = new Uint32Array(Float32Array.of(1.702, 7).buffer);
      space.step(ACTIVATE, kind, ...numbers, g, u, n, g);
      space.run();
      assert.equal(hex(space.floats.slice(g / 4, g / 4 + n)), golden[name], name);
    }
  });

  test(`${flavour}: silu by an activation with ones`, () => {
    const space = workspace(module);
    const golden = vectors("arithmetic/elementary.json");
    const z = floats(golden.z);
    space.begin();
    const [g, u] = [put(space, golden.z), space.place(4 * z.length)];
    space.floats.fill(1, u / 4, u / 4 + z.length);
    space.step(ACTIVATE, 0, 0, 0, g, u, z.length, g);
    space.run();
    assert.equal(hex(space.floats.slice(g / 4, g / 4 + z.length)), golden.silu);
  });

  test(`${flavour}: block coding`, () => {
    const space = workspace(module);
    for (const golden of vectors("arithmetic/coding.json")) {
      for (const [q, name] of [[127, "R8"], [32767, "R16"]]) {
        space.begin();
        const x = put(space, golden.x);
        const at = space.place(golden[name].length / 2);
        space.step(CODE, x, 1, golden.x.length / 8, q, at);
        space.run();
        const found = space.bytes.slice(at, at + golden[name].length / 2);
        assert.equal(hex(found), golden[name], `${golden.name} ${name}`);
      }
    }
  });

  test(`${flavour}: refusals and traps are one line each`, () => {
    const space = workspace(module);
    const run = (...step) => () => {
      space.begin();
      space.step(...step);
      space.run();
    };
    space.begin();
    const at = space.place(64);
    space.floats.fill(NaN, at / 4, at / 4 + 1);
    assert.throws(run(CHECK, at, 1), of_kind("NonFinite"));
    assert.throws(run(CODE, at, 1, 33, 127, at), of_kind("ShapeMismatch"));
    assert.throws(run(MULTIPLY, 9, at, 0, 32, at, 0, at, 0), of_kind("FormatUnsupported"));
    assert.throws(run(77), of_kind("KernelUnavailable"));
    assert.throws(run(CHECK, space.bytes.length, 1), of_kind("KernelUnavailable"));
    assert.doesNotThrow(run(CHECK, at + 4, 1));
  });
}

test("the forced module, or the first that is valid", async () => {
  const { flavour } = await choose_module(load, "plain");
  assert.equal(flavour, "plain");
  const none = Uint8Array.of(0, 97, 115, 109);
  const only_plain = async (each) => (each === "plain" ? load(each) : none);
  assert.equal((await choose_module(only_plain)).flavour, "plain");
  await assert.rejects(choose_module(only_plain, "relaxed"), of_kind("KernelUnavailable"));
  await assert.rejects(choose_module(async () => none), of_kind("KernelUnavailable"));
});

const { module } = await choose_module(load, "plain");

test("the memory is the cap, and what does not fit is refused", () => {
  const space = new Workspace(module, 3 << 20, 1000, 1 << 20);
  assert.equal(space.bytes.length, 3 << 20);
  assert.throws(() => new Workspace(module, 1 << 16, 64), of_kind("KernelUnavailable"));
  assert.throws(() => new Workspace(module, 2 ** 40, 64), of_kind("KernelUnavailable"));
  assert.throws(() => new Workspace(module, 1 << 20, 64, 1 << 20), of_kind("KernelUnavailable"));
  space.begin();
  const first = space.place(1 << 19);
  assert.equal(space.place(1) - first, 1 << 19);
  assert.throws(() => space.place(1 << 19), of_kind("ShapeMismatch"));
});

test("slots are apart, fixed, and taken again once they are free", () => {
  const space = new Workspace(module, 2 << 20, 200_000, 1 << 20);
  const names = Array.from({ length: space.n_slots }, (_, i) => `expert ${i}`);
  const taken = names.map((name) => space.take(name, 200_000));
  assert.ok(taken.length >= 4);
  assert.ok(taken.every((at, i) => !i || at - taken[i - 1] === space.slot_bytes));
  assert.ok(taken.at(-1) + 200_000 <= space.bytes.length);
  assert.throws(() => space.take("more", 1), of_kind("MemoryExhausted"));
  space.free(names[1]);
  space.free("unknown");
  assert.throws(() => space.take("large", 200_065), of_kind("MemoryExhausted"));
  assert.equal(space.take("other", 1), taken[1]);
});

test("instances do not see each other", () => {
  const [one, other] = [workspace(module), workspace(module)];
  one.bytes.fill(7, one.bytes.length - 64);
  assert.equal(other.bytes.at(-1), 0);
});
