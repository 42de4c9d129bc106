import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";
import { from_hex, to_hex } from "../../../mobile_worker/browser/bytes.js";
import { open_grant } from "../../../mobile_worker/browser/grant.js";
import { plain, refused, same_verdicts, vectors } from "./support.mjs";

const golden = vectors("ledger/golden.json");
const { grant: hostile } = vectors("protocol/hostile.json");
const ledger = from_hex(golden.keys.ledger);

test("the golden grant, signed by the ledger", async () => {
  const [raw, signature] = [from_hex(golden.grant), from_hex(golden.ledger_signature)];
  const grant = await open_grant(raw, signature, ledger);
  assert.equal(to_hex(grant.worker), golden.keys.worker);
  assert.equal(grant.ceiling_uc, 1000000);
  assert.equal(to_hex(grant.content_hash), createHash("sha256").update(raw).digest("hex"));
  await refused(() => open_grant(raw, signature, from_hex(golden.keys.market)));
  await refused(() => open_grant(raw.map((byte) => byte ^ 1), signature, ledger));
  await refused(() => open_grant(raw, signature.subarray(1), ledger));
});

test("spoilt grants that the ledger signed: Python's verdicts", async () => {
  const read = async (raw, signature) => {
    const { content_hash, ...grant } = await open_grant(raw, from_hex(signature), ledger);
    return plain(grant);
  };
  assert.ok(await same_verdicts(hostile, read) > 3);
});
