import assert from "node:assert/strict";
import test from "node:test";
import { from_hex, to_hex } from "../../../mobile_worker/browser/bytes.js";
import { Identity } from "../../../mobile_worker/browser/crypto.js";
import { parse_descriptor, parse_record, sign_record }
  from "../../../mobile_worker/browser/records.js";
import { identity_of, plain, refused, same_verdicts, vectors } from "./support.mjs";

const { names, network, records } = vectors("protocol/golden.json");
const hostile = vectors("protocol/hostile.json");

test("records are read as in Python", async () => {
  for (const record of records.records) {
    assert.deepEqual(plain(await parse_record(from_hex(record.encoded))), record);
  }
});

test("a record that is signed here is Python's, to the byte", async () => {
  const [record] = records.records;
  const own = await identity_of(names.one.seeds);
  const encoded = await sign_record(own, { ...record, self_test: from_hex(record.self_test) });
  assert.equal(to_hex(encoded), record.encoded);
  assert.equal(record.encoded, names.one.record);
});

test("descriptors name market and ledger, or nobody", async () => {
  const { market, ledger } = records;
  assert.deepEqual(plain(await parse_descriptor(from_hex(records.descriptor))),
    { network, market, ledger });
  assert.deepEqual(plain(await parse_descriptor(from_hex(records.empty_descriptor))),
    { network, market: null, ledger: null });
});

test("spoilt records and descriptors: Python's verdicts", async () => {
  const without = (fields) => { delete fields.encoded; return fields; };
  const cases = (kind) => hostile[kind].map(([raw, fields]) => [raw, fields && without(fields)]);
  const read = async (raw) => without(plain(await parse_record(raw)));
  const n = await same_verdicts(cases("record"), read);
  const m = await same_verdicts(cases("descriptor"),
    async (raw) => plain(await parse_descriptor(raw)));
  assert.ok(n > 0 && m > 0);
});

test("a record too long is not signed", async () => {
  const own = await Identity.generate();
  const self_test = new Uint8Array(32);
  const fields = { role: 1, relays: ["a".repeat(900)], self_test, not_after_us: 0, sequence: 0 };
  await refused(() => sign_record(own, fields));
});
