import assert from "node:assert/strict";
import test from "node:test";
import { crc32, equal, from_hex, layout, text_of, to_hex, utf8 }
  from "../../../mobile_worker/browser/bytes.js";
import { bytes_of, chance, refused } from "./support.mjs";

const ALL = layout("\x07x", "a:B b:H c:I d:Q e:q f:3s");

test("a layout packs big-endian and reads back", () => {
  const values = { a: 1, b: 0x203, c: 0x4050607, d: 2n ** 64n - 1n, e: -2n, f: utf8("end") };
  const raw = ALL.pack(values);
  assert.equal(to_hex(raw),
    "0778" + "01" + "0203" + "04050607" + "ffffffffffffffff" + "fffffffffffffffe" + "656e64");
  assert.equal(ALL.size, raw.length);
  assert.deepEqual({ ...ALL.parse(raw), f: 0 }, { ...values, f: 0 });
  const behind = new Uint8Array([9, 9, 9, ...raw, 9]);
  assert.equal(ALL.read(behind, 3).c, values.c);
  assert.equal(text_of(ALL.read(behind.subarray(2), 1).f), "end");
});

test("what does not fit a layout is refused", async () => {
  const good = { a: 1, b: 2, c: 3, d: 4, e: 5, f: new Uint8Array(3) };
  const raw = ALL.pack(good);
  for (const [name, value] of [["a", 256], ["a", -1], ["b", 65536], ["c", 2 ** 32],
    ["d", 2n ** 64n], ["d", -1], ["e", 2n ** 63n], ["f", new Uint8Array(4)]]) {
    await refused(() => ALL.pack({ ...good, [name]: value }));
  }
  await refused(() => ALL.parse(raw.subarray(1)));
  await refused(() => ALL.read(raw, 1));
  await refused(() => ALL.parse(new Uint8Array([...raw, 0])));
  await refused(() => ALL.parse(raw.map((byte, i) => (i === 1 ? byte + 1 : byte))));
});

test("hex goes both ways, and nothing else is hex", async () => {
  const raw = bytes_of(chance(1), 40);
  assert.ok(equal(from_hex(to_hex(raw)), raw));
  assert.ok(equal(from_hex(""), []));
  for (const text of ["0", "0g", " 00", "0x00"]) await refused(() => from_hex(text));
});

test("text is strict UTF-8, a byte order mark is a character", async () => {
  assert.equal(text_of(utf8("µ \u{1f600}")), "µ \u{1f600}");
  assert.equal(text_of(from_hex("efbbbf61")), "\ufeffa");
  for (const hex of ["ff", "c080", "eda080", "f4908080", "c3"]) {
    await refused(() => text_of(from_hex(hex)));
  }
});

test("crc32 is zlib's", () => {
  assert.equal(crc32(utf8("123456789")), 0xcbf43926);
  assert.equal(crc32(utf8("1234"), utf8(""), utf8("56789")), 0xcbf43926);
  assert.equal(crc32(), 0);
});
