import assert from "node:assert/strict";
import test from "node:test";
import { from_hex, to_hex } from "../../../mobile_worker/browser/bytes.js";
import { decode, encode } from "../../../mobile_worker/browser/msgpack.js";
import { bytes_of, chance, refused } from "./support.mjs";

const read = (hex) => decode(from_hex(hex), 20, 20);

test("integers come shortest and are read in every length", () => {
  for (const [value, hex] of [[0, "00"], [127, "7f"], [128, "cc80"], [255, "ccff"],
    [256, "cd0100"], [65536, "ce00010000"], [2 ** 32, "cf0000000100000000"],
    [2n ** 64n - 1n, "cfffffffffffffffff"]]) {
    assert.equal(to_hex(Uint8Array.from(encode(value))), hex);
    assert.equal(read(hex), BigInt(value));
  }
  for (const hex of ["01", "cc01", "cd0001", "ce00000001", "cf0000000000000001", "d001", "d10001",
    "d200000001", "d30000000000000001"]) assert.equal(read(hex), 1n);
  for (const [hex, value] of [["ff", -1n], ["e0", -32n], ["d080", -128n], ["d18000", -32768n],
    ["d38000000000000000", -(2n ** 63n)]]) assert.equal(read(hex), value);
});

test("a float is a number, which no integer is", () => {
  assert.equal(read("ca3f800000"), 1);
  assert.equal(read("cb3ff0000000000000"), 1);
});

test("strings, bytes, lists and maps go both ways", () => {
  const draw = chance(2);
  for (const n of [0, 1, 31, 32, 255, 256, 65535, 65536]) {
    const text = "a".repeat(n);
    assert.equal(decode(encode(text), 0), text);
    assert.deepEqual(decode(encode(bytes_of(draw, n)), 0).length, n);
  }
  for (const n of [0, 15, 16, 255, 256, 300]) {
    const list = Array.from({ length: n }, (_, i) => BigInt(i));
    assert.deepEqual(decode(encode(list), n), list);
  }
  const map = new Map([["a", [1n, "x"]], ["b", true], ["c", null]]);
  assert.deepEqual(read("83a16192" + "01a178" + "a162c3" + "a163c0"), map);
  map.delete("c");
  assert.deepEqual(decode(encode(map), 9, 9), map);
});

test("what is too long, too deep, doubled, cut or unknown is refused", async () => {
  for (const hex of ["", "c1", "d40000", "c70000", "a261", "c402aa", "91", "81a161", "0101", "a1ff",
    "82a16101a16102", "810101", "81c4016101", "9181a16101", "91919100", "dc0015", "dd7fffffff",
    "dfffffffff", "c6ffffffff", "dbffffffff", "cf00"]) await refused(() => read(hex));
  await refused(() => decode(from_hex("920101"), 1));
  await refused(() => decode(from_hex("81a16101"), 9));
  await refused(() => encode(2n ** 64n));
  await refused(() => encode(-1));
});

test("no bytes make anything but a value or a ProtocolError", async () => {
  const draw = chance(3);
  for (let i = 0; i < 3000; i++) {
    const raw = bytes_of(draw, draw(12));
    try {
      decode(raw, 8, 8);
    } catch (error) {
      await refused(() => { throw error; });
    }
  }
});
