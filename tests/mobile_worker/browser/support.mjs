// What the tests of these modules share: vectors, seeded chance, keys of known seeds.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import test from "node:test";
import { ProtocolError, from_hex, to_hex } from "../../../mobile_worker/browser/bytes.js";
import { Identity } from "../../../mobile_worker/browser/crypto.js";

const ROOT = new URL("../../../", import.meta.url);
const { subtle } = globalThis.crypto;

/** JSON whose integers beyond 2^53 come as strings. */
function parse(text) {
  const quote = (whole, before, n) => (Number.isSafeInteger(+n) ? whole : `${before}"${n}"`);
  return JSON.parse(text.replace(/([[:,]\s*)(-?\d{16,})(?=\s*[,\]}\n])/g, quote));
}

/** A golden file below tests/vectors. */
export const vectors = (path) => parse(readFileSync(new URL(`tests/vectors/${path}`, ROOT), "utf8"));

/** A test with a file below ../shared; without it skipped, or failed where it must be there. */
export function shared_test(name, path, body) {
  const url = new URL(`../shared/${path}`, ROOT);
  const skip = !existsSync(url) && process.env.P2PMOE_REQUIRE_SHARED !== "1";
  const why = skip && `needs ../shared/${path}, which this clone does not have`;
  test(name, { skip: why }, () => body(parse(readFileSync(url, "utf8"))));
}

/** Seeded chance: integers below n. */
export function chance(seed) {
  return (n) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}

/** Bytes of seeded chance. */
export const bytes_of = (draw, n) => Uint8Array.from({ length: n }, () => draw(256));

/** The value as the makers in tests/vectors write it. */
export function plain(value) {
  if (value instanceof Uint8Array) return to_hex(value);
  if (ArrayBuffer.isView(value)) return Array.from(value);
  if (typeof value === "bigint") {
    return value > -(2n ** 53n) && value < 2n ** 53n ? Number(value) : String(value);
  }
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
}

/** Whether only a ProtocolError of one line comes of this. */
export async function refused(what) {
  await assert.rejects(async () => what(), (error) => {
    assert.ok(error instanceof ProtocolError, error?.stack ?? String(error));
    assert.match(error.message, /^[^\n]+$/);
    return true;
  });
}

/** Bytes and Python's verdicts: `read` gives the same fields, or refuses as Python does. */
export async function same_verdicts(cases, read) {
  let n_good = 0;
  for (const [raw, fields, ...rest] of cases) {
    if (fields === null) {
      await refused(() => read(from_hex(raw), ...rest)).catch((error) => {
        throw new Error(`${raw} is taken: ${error.message}`);
      });
    } else {
      n_good += 1;
      assert.deepEqual(await read(from_hex(raw), ...rest), fields, raw);
    }
  }
  return n_good;
}

const PKCS8 = {
  Ed25519: "302e020100300506032b657004220420", X25519: "302e020100300506032b656e04220420",
};

/** The key pair of 32 secret bytes, as WebCrypto has it. */
export async function pair_of(name, seed) {
  const uses = name === "Ed25519" ? ["sign"] : ["deriveBits"];
  const key = await subtle.importKey("pkcs8", from_hex(PKCS8[name] + to_hex(seed)), name, true, uses);
  const { x } = await subtle.exportKey("jwk", key);
  return { public: new Uint8Array(Buffer.from(x, "base64url")), private: key };
}

/** The identity of two secrets. */
export async function identity_of([signing, fixed]) {
  return new Identity(
    await pair_of("Ed25519", from_hex(signing)), await pair_of("X25519", from_hex(fixed)));
}

/** As `drawn` in tests/vectors/make_protocol.py. */
export const drawn = (name, number, size) =>
  new Uint8Array(createHash("sha256").update(`${name} ${number}`).digest()).slice(0, size);
