import assert from "node:assert/strict";
import { test } from "node:test";

import { measure_rate, self_test } from "../../../mobile_worker/browser/self_test.js";
import { file_of, hex, load, modules } from "./compute_support.mjs";

const DIGEST = /fromhex\(\s*"(\w{64})"/.exec(
  new TextDecoder().decode(file_of("mobile_worker/arithmetic/self_test_digest.py")))[1];

for (const { flavour, module } of await modules()) {
  test(`${flavour}: the digest of Python's self-test`, () => {
    assert.equal(hex(self_test(module)), DIGEST);
  });

  test(`${flavour}: a rate is a number`, () => {
    assert.ok(measure_rate(module, 1) > 0);
  });
}

test("a module that computes something else is refused", async () => {
  const raw = await load("plain");
  const iq4 = Int8Array.of(-127, -104, -83, -65, -49); // the table of IQ4_NL
  const at = Buffer.from(raw).indexOf(Buffer.from(iq4.buffer));
  assert.ok(at > 0);
  raw[at] ^= 1;
  const changed = await WebAssembly.compile(raw);
  assert.throws(() => self_test(changed), ({ kind }) => kind === "KernelUnavailable");
});
