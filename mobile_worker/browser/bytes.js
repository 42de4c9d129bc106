/** Bytes: fixed layouts, hex, UTF-8, CRC-32, and the one error of the protocol's modules. */

/** What a peer sent breaks a rule; one line says which. */
export class ProtocolError extends Error {
  name = "ProtocolError";
}

/** Throw a ProtocolError unless `fine`. */
export function check(fine, why) {
  if (!fine) throw new ProtocolError(why);
}

export const view_of = (raw) => new DataView(raw.buffer, raw.byteOffset, raw.length);

const KINDS = {
  B: [1, "Uint8"], H: [2, "Uint16"], I: [4, "Uint32"], Q: [8, "BigUint64"], q: [8, "BigInt64"],
};

/** A fixed big-endian layout: `prefix`, byte for character, then named fields such as
 * "tab:8s serving:I", as Python's struct has them. Q and q are BigInt; bytes are views. */
export function layout(prefix, text) {
  const first = Uint8Array.from(prefix, (c) => c.charCodeAt(0));
  let size = first.length;
  const fields = text.split(" ").map((field) => {
    const [name, kind] = field.split(":");
    const [n, method] = KINDS[kind] ?? [parseInt(kind)];
    size += n;
    return { name, n, method, at: size - n };
  });
  /** The fields from offset `start` on. */
  function read(raw, start = 0) {
    check(raw.length - start >= size, `${raw.length - start} bytes where ${size} belong`);
    check(first.every((byte, i) => byte === raw[start + i]), "bytes of another kind or version");
    const view = view_of(raw);
    return Object.fromEntries(fields.map(({ name, n, method, at }) => [name,
      method ? view["get" + method](start + at) : raw.subarray(start + at, start + at + n)]));
  }
  return {
    size,
    read,
    /** The fields of bytes that they fill. */
    parse(raw) {
      check(raw.length === size, `${raw.length} bytes where ${size} belong`);
      return read(raw);
    },
    /** The bytes of the fields; ProtocolError if one does not fit. */
    pack(values) {
      const raw = new Uint8Array(size);
      const view = view_of(raw);
      raw.set(first);
      for (const { name, n, method, at } of fields) {
        const value = values[name];
        if (method) {
          const whole = BigInt(value);
          const cut = method === "BigInt64" ? BigInt.asIntN : BigInt.asUintN;
          check(cut(8 * n, whole) === whole, `${name} of ${value}`);
          view["set" + method](at, n === 8 ? whole : Number(whole));
        } else {
          check(value.length === n, `${name} of ${value.length} bytes`);
          raw.set(value, at);
        }
      }
      return raw;
    },
  };
}

/** One number: pack("H", 5). */
export const pack = (kind, n) => layout("", "n:" + kind).pack({ n });

/** All parts, one behind the other. */
export function concat(...parts) {
  const raw = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    raw.set(part, at);
    at += part.length;
  }
  return raw;
}

export const is_bytes = (value) => value instanceof Uint8Array;

export const equal = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

export const to_hex = (raw) =>
  Array.from(raw, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The bytes of hex digits, or ProtocolError. */
export function from_hex(text) {
  check(/^([0-9a-f]{2})*$/i.test(text), "no hex digits");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const utf8 = (text) => encoder.encode(text);

/** The text of strict UTF-8, or ProtocolError. */
export function text_of(raw) {
  try {
    return decoder.decode(raw);
  } catch {
    throw new ProtocolError("no UTF-8");
  }
}

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = (n >>> 1) ^ (n & 1 && 0xedb88320);
  return n;
});

/** The CRC-32 of all parts together. */
export function crc32(...parts) {
  let sum = ~0;
  for (const part of parts) {
    for (let i = 0; i < part.length; i++) sum = CRC[(sum ^ part[i]) & 255] ^ (sum >>> 8);
  }
  return ~sum >>> 0;
}
