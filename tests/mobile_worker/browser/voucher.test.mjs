import assert from "node:assert/strict";
import test from "node:test";
import { from_hex, to_hex } from "../../../mobile_worker/browser/bytes.js";
import { Identity } from "../../../mobile_worker/browser/crypto.js";
import { MAX_VOUCHER_BYTES, NO_VOUCHER, pack_voucher, parse_voucher, sign_voucher, verify_voucher,
  voucher_hash } from "../../../mobile_worker/browser/voucher.js";
import { chance, plain, refused, same_verdicts, vectors } from "./support.mjs";

const golden = vectors("ledger/golden.json");
const { voucher: hostile } = vectors("protocol/hostile.json");
const RAW = from_hex(golden.voucher);

test("the golden voucher goes both ways, with its name and both signatures", async () => {
  assert.equal(to_hex(pack_voucher(parse_voucher(RAW))), golden.voucher);
  assert.equal(to_hex(await voucher_hash(RAW)), golden.voucher_hash);
  for (const who of ["worker", "backbone"]) {
    const [key, signature] = [from_hex(golden.keys[who]), from_hex(golden[`${who}_signature`])];
    assert.ok(await verify_voucher(RAW, signature, key));
    assert.ok(!await verify_voucher(RAW.map((byte) => byte ^ 1), signature, key));
  }
  const [signature, other] = [golden.worker_signature, golden.keys.backbone].map(from_hex);
  assert.ok(!await verify_voucher(RAW, signature, other));
});

test("what is signed here verifies", async () => {
  const own = await Identity.generate();
  assert.ok(await verify_voucher(RAW, await sign_voucher(RAW, own), own.peer_id));
});

test("spoilt vouchers: Python's verdicts", async () => {
  assert.ok(await same_verdicts(hostile, (raw) => plain(parse_voucher(raw))) > 3);
});

test("vouchers of many ranges go both ways; contradictions are refused", async () => {
  const draw = chance(15);
  const good = parse_voucher(RAW);
  const make = (n) => {
    let at = 0;
    const ranges = Array.from({ length: n }, () => {
      const first = at + draw(5);
      at = first + draw(9) + 2;
      return [first, at - 2];
    });
    const leaves = ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    return { ...good, ranges, leaves, rows: BigInt(leaves) };
  };
  for (const n of [0, 1, 2, 4096]) {
    const voucher = make(n);
    const raw = pack_voucher(voucher);
    assert.equal(raw.length, MAX_VOUCHER_BYTES - 8 * (4096 - n));
    assert.deepEqual(plain(parse_voucher(raw)), plain(voucher));
  }
  await refused(() => pack_voucher(make(4097)));
  for (const changes of [{ number: 0 }, { number: 2 }, { previous: new Uint8Array(32).fill(1) },
    { leaves: 1 }, { rows: 1n }, { rows: 2n ** 63n }, { issued_us: 2n ** 63n },
    { amount_uc: 2 ** 53 }, { amount_uc: -1 }, { ranges: [[0, 1], [2, 8]] }, { ranges: [[8, 0]] },
    { tab: new Uint8Array(7) }]) {
    await refused(() => pack_voucher({ ...good, previous: NO_VOUCHER, ...changes }));
  }
});
