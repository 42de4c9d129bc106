import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";
import { from_hex, to_hex } from "../../../mobile_worker/browser/bytes.js";
import { MAX_PRICE_TABLE_BYTES, PriceTable, open_price_table }
  from "../../../mobile_worker/browser/prices.js";
import { plain, refused, same_verdicts, vectors } from "./support.mjs";

const golden = vectors("ledger/golden.json");
const hostile = vectors("protocol/hostile.json");

test("the golden table, signed by the market", async () => {
  const raw = from_hex(golden.prices);
  const [signature, market] = [from_hex(golden.market_signature), from_hex(golden.keys.market)];
  const table = await open_price_table(raw, signature, market);
  assert.deepEqual([table.epoch, table.base_uc], [7, 10]);
  assert.deepEqual([table.amount(1, 3, 2), table.amount(0, 3, 2)], [30, 20]);
  assert.equal(to_hex(table.content_hash), createHash("sha256").update(raw).digest("hex"));
  assert.equal(MAX_PRICE_TABLE_BYTES, 85 + 8 * 131072);
  await refused(() => open_price_table(raw, signature, from_hex(golden.keys.ledger)));
  await refused(() => open_price_table(raw.map((byte) => byte ^ 1), signature, market));
});

test("amounts are Python's, and what passes 2^53 is refused", async () => {
  const [[dear], ...cases] = hostile.amounts;
  const [table, dear_table] =
    [hostile.prices[0][0], dear].map((hex) => PriceTable.parse(from_hex(hex)));
  for (const [is_dear, layer, expert, rows, amount] of cases) {
    const of = () => (is_dear ? dear_table : table).amount(layer, expert, rows);
    if (amount === null) await refused(of);
    else assert.equal(String(of()), String(amount));
  }
});

test("spoilt tables: Python's verdicts", async () => {
  const cases = hostile.prices.map(([raw, fields]) => {
    if (!fields) return [raw, null];
    const { multipliers, ...rest } = fields;
    return [raw, { ...rest, n: multipliers.length }];
  });
  const read = (raw) => {
    const { content_hash, ...fields } = PriceTable.parse(raw);
    return { ...plain(fields), base_uc: Number(fields.base_uc) };
  };
  assert.ok(await same_verdicts(cases, read) > 3);
});
