import assert from "node:assert/strict";
import test from "node:test";
import { from_hex, to_hex } from "../../../mobile_worker/browser/bytes.js";
import { LEAF_BYTES, pack_leaf, parse_leaf }
  from "../../../mobile_worker/browser/leaf.js";
import { plain, refused, same_verdicts, vectors } from "./support.mjs";

const { leaves } = vectors("ledger/golden.json");
const hostile = vectors("protocol/hostile.json");

test("leaves go both ways, to the byte", () => {
  assert.equal(LEAF_BYTES, 79);
  for (const leaf of leaves) assert.equal(to_hex(pack_leaf(parse_leaf(from_hex(leaf)))), leaf);
});

test("spoilt leaves: Python's verdicts", async () => {
  assert.ok(await same_verdicts(hostile.leaf, (raw) => plain(parse_leaf(raw))) > 5);
});

test("fields out of bounds are not packed", async () => {
  const leaf = parse_leaf(from_hex(leaves[0]));
  for (const [name, value] of [["rows", 0], ["rows", 65536], ["amount_uc", -1],
    ["amount_uc", 2 ** 53], ["serving", 2 ** 32], ["request", 2n ** 64n],
    ["tab", new Uint8Array(7)], ["x_hash", new Uint8Array(15)]]) {
    await refused(() => pack_leaf({ ...leaf, [name]: value }));
  }
});
