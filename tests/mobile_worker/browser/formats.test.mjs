import assert from "node:assert/strict";
import { test } from "node:test";

import { FORMATS, is_integer, matrix_bytes, must } from "../../../mobile_worker/browser/formats.js";
import { file_of } from "./compute_support.mjs";

const of_kind = (kind) => (error) => error.kind === kind;

test("numbers and blocks are those of block_format.py", () => {
  const source = new TextDecoder().decode(
    file_of("mobile_worker/arithmetic/formats/block_format.py"));
  for (const [number, [name, values, n_bytes]] of FORMATS) {
    assert.match(source, new RegExp(`^    ${name} = ${number}$`, "m"));
    assert.ok(source.includes(`Format.${name}: (${values}, ${n_bytes}),`), name);
    assert.equal(is_integer(number), !["F32", "F16", "BF16"].includes(name));
  }
});

test("bytes of matrices", () => {
  assert.equal(matrix_bytes(2, 3, 64), 3 * 2 * 18);
  assert.equal(matrix_bytes(0, 2, 32), 256);
  assert.equal(matrix_bytes(12, 1, 512), 288);
  for (const [format, n_rows, n_cols] of [
    [12, 1, 32], [40, 1, 32], [0, 1, 33], [0, 0, 32], [2, 1, 0], [2, -1, 32], [0, 1, NaN],
  ]) {
    assert.throws(() => matrix_bytes(format, n_rows, n_cols), of_kind("MatrixMalformed"));
  }
  for (const format of [9, 15, 255, -1, 1.5, undefined]) {
    assert.throws(() => matrix_bytes(format, 1, 256), of_kind("FormatUnsupported"));
  }
});

test("a refusal has its kind", () => {
  assert.doesNotThrow(() => must(1, "NonFinite", "never"));
  assert.throws(() => must(0, "NonFinite", "a reason"), /a reason/);
});
