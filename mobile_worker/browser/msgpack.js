/** The msgpack of headers and records, as strict as Python's msgpack in messages/envelope.py.
 * Integers are read as BigInt: a number is a float, which no field takes. A map stands
 * outermost alone, lists no deeper than in it or in a list; extensions are refused. */
import { ProtocolError, check, concat, is_bytes, pack, text_of, utf8, view_of }
  from "./bytes.js";

/** The value of msgpack; its lists and its map have at most so many entries. */
export function decode(raw, max_list, max_keys = 0) {
  const view = view_of(raw);
  let at = 0;
  function take(n) {
    check(n <= raw.length - at, "msgpack is cut short");
    at += n;
    return raw.subarray(at - n, at);
  }
  const whole = (n) => take(n).reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  const size = (n) => Number(whole(n));
  function list(n, depth) {
    check(n <= max_list && depth < 2, "a list too long or too deep");
    return Array.from({ length: n }, () => value(depth + 1));
  }
  function map(n, depth) {
    check(n <= max_keys && !depth, "a map too long or too deep");
    const found = new Map();
    while (found.size < n) {
      const key = value(1);
      check(typeof key === "string" && !found.has(key), "a key twice, or no string");
      found.set(key, value(1));
    }
    return found;
  }
  function value(depth) {
    const byte = size(1);
    const n = 1 << (byte & 3);
    if (byte < 0x80) return BigInt(byte);
    if (byte < 0x90) return map(byte & 15, depth);
    if (byte < 0xa0) return list(byte & 15, depth);
    if (byte < 0xc0) return text_of(take(byte & 31));
    if (byte === 0xc0) return null;
    if (byte === 0xc2 || byte === 0xc3) return byte === 0xc3;
    if (byte >= 0xc4 && byte < 0xc7) return take(size(n));
    if (byte === 0xca || byte === 0xcb) return take(n) && view["getFloat" + 8 * n](at - n);
    if (byte >= 0xcc && byte < 0xd0) return whole(n);
    if (byte >= 0xd0 && byte < 0xd4) return BigInt.asIntN(8 * n, whole(n));
    if (byte >= 0xd9 && byte < 0xdc) return text_of(take(size(n >> 1)));
    if (byte === 0xdc || byte === 0xdd) return list(size(2 * n), depth);
    if (byte === 0xde || byte === 0xdf) return map(size(n >> 1), depth);
    if (byte >= 0xe0) return BigInt(byte - 256);
    throw new ProtocolError(`msgpack of kind ${byte}`);
  }
  const found = value(0);
  check(at === raw.length, "bytes behind msgpack");
  return found;
}

const BITS = { B: 8n, H: 16n, I: 32n, Q: 64n };

function head(n, short, most, first, kinds = "BHIQ") {
  if (n >= 0 && n <= most) return [short | Number(n)];
  const at = [...kinds].findIndex((kind) => BigInt(n) >> BITS[kind] === 0n);
  check(at >= 0, `${n} does not fit msgpack`);
  return concat([first + at], pack(kinds[at], n));
}

/** The msgpack of integers from 0 on, booleans, strings, bytes, lists and a Map. */
export function encode(value) {
  if (typeof value === "boolean") return [value ? 0xc3 : 0xc2];
  if (typeof value === "string") {
    const raw = utf8(value);
    return concat(head(raw.length, 0xa0, 31, 0xd9), raw);
  }
  if (is_bytes(value)) return concat(head(value.length, 0, -1, 0xc4), value);
  if (value instanceof Map) {
    const inner = [...value].flat().map(encode);
    return concat(head(value.size, 0x80, 15, 0xde, "HI"), ...inner);
  }
  if (!Array.isArray(value)) return head(value, 0, 127, 0xcc);
  return concat(head(value.length, 0x90, 15, 0xdc, "HI"), ...value.map(encode));
}
