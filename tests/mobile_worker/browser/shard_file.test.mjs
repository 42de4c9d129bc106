import assert from "node:assert/strict";
import { test } from "node:test";

import { ProtocolError } from "../../../mobile_worker/browser/bytes.js";
import { layout_of, shard_parts } from "../../../mobile_worker/browser/shard_file.js";

const GOOD = [2n, 8n, 14n, 256n, 512n, 1n, 1.702, 7.0, true];

test("a layout as a manifest has it", () => {
  assert.deepEqual(layout_of(GOOD), {
    formats: [2, 8, 14], n_embd: 256, n_ff: 512, kind: 1, alpha: 1.702, limit: 7,
    biased: true,
  });
});

test("what is no layout is refused, whatever it is", () => {
  const others = [
    undefined, null, "", "x", -1n, 1n << 64n, 256n, 1 << 21, 0n, 2, NaN, Infinity, -1e39,
    [], {}, new Uint8Array(8), true, 2.5,
  ];
  let n_refused = 0;
  for (let i = 0; i < GOOD.length; i++) {
    for (const other of others) {
      const changed = GOOD.with ? GOOD.with(i, other) : Object.assign([...GOOD], { [i]: other });
      try {
        layout_of(changed);
      } catch (error) {
        assert.ok(error instanceof ProtocolError, String(error));
        n_refused++;
      }
    }
  }
  assert.ok(n_refused > 140);
  for (const none of [null, undefined, 7n, "layout", {}, [], GOOD.slice(1), [...GOOD, 1n]]) {
    assert.throws(() => layout_of(none), ProtocolError);
  }
});

test("parts lie side by side, biases behind them", () => {
  const { matrices, n_bytes } = shard_parts(layout_of(GOOD), 1000);
  const [gate, up, down] = matrices;
  const sizes = [(512 * 256 / 32) * 18, (512 * 256 / 32) * 34, (512 * 256 / 256) * 210];
  assert.deepEqual([gate.n_rows, gate.n_cols, down.n_rows, down.n_cols], [512, 256, 256, 512]);
  assert.equal(gate.at, 1000);
  assert.equal(up.at, 1000 + sizes[0]);
  assert.equal(down.at, up.at + sizes[1]);
  assert.equal(gate.bias, down.at + sizes[2]);
  assert.equal(up.bias, gate.bias + 4 * 512);
  assert.equal(down.bias, up.bias + 4 * 512);
  assert.equal(n_bytes, down.bias + 4 * 256 - 1000);
  const plain = shard_parts({ ...layout_of(GOOD), biased: false });
  assert.deepEqual(plain.matrices.map(({ bias }) => bias), [0, 0, 0]);
  assert.equal(plain.n_bytes, sizes[0] + sizes[1] + sizes[2]);
});

test("layouts that no shard can have", () => {
  const refused = (changes, kind) =>
    assert.throws(
      () => shard_parts({ ...layout_of(GOOD), ...changes }),
      (error) => error.kind === kind);
  refused({ formats: [2, 9, 2] }, "FormatUnsupported");
  refused({ n_ff: 96 }, "MatrixMalformed"); // Q6_K has blocks of 256
  refused({ n_embd: 33 }, "MatrixMalformed");
  refused({ formats: [0, 0, 0], n_ff: 33 }, "MatrixMalformed");
});
