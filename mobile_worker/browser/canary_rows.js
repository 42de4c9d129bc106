/**
 * The rows of a canary, from a seed and an expert. Reference: serve/canary_rows.py;
 * SHAKE-256 (FIPS 202), which WebCrypto lacks.
 */
import { concat, pack } from "./bytes.js";
import { must } from "./formats.js";

const RATE = 136; // bytes of the state that take in and give out
const LANES = []; // where each lane goes, from lane (1, 0) on, and by how many bits
const TURNS = [];
const ROUNDS = new Int32Array(48);
for (let round = 0, x = 1, y = 0, bits = 1; round < 24; round++) {
  [x, y] = [y, (2 * x + 3 * y) % 5];
  LANES.push(2 * (5 * y + x));
  TURNS.push((((round + 1) * (round + 2)) / 2) % 64);
  for (let j = 0; j < 7; j++) {
    if (bits & 1) ROUNDS[2 * round + (j > 5)] ^= 1 << (2 ** j - 1);
    bits = (bits << 1) ^ ((bits >> 7) * 0x171);
  }
}

/** Keccak-f[1600] of 25 lanes, each of a low and a high word. */
function permute(s) {
  const c = new Int32Array(10);
  for (let round = 0; round < 24; round++) {
    for (let x = 0; x < 10; x++) {
      c[x] = s[x] ^ s[x + 10] ^ s[x + 20] ^ s[x + 30] ^ s[x + 40];
    }
    for (let x = 0; x < 10; x += 2) {
      const [a, b] = [(x + 2) % 10, (x + 8) % 10];
      const low = c[b] ^ (c[a] << 1) ^ (c[a + 1] >>> 31);
      const high = c[b + 1] ^ (c[a + 1] << 1) ^ (c[a] >>> 31);
      for (let y = x; y < 50; y += 10) {
        s[y] ^= low;
        s[y + 1] ^= high;
      }
    }
    let [, , low, high] = s;
    for (let i = 0; i < 24; i++) {
      const [at, n] = [LANES[i], TURNS[i]];
      if (n & 32) [low, high] = [high, low];
      const [one, two] = [(low << n) ^ (high >>> -n), (high << n) ^ (low >>> -n)];
      [low, high] = [s[at], s[at + 1]];
      [s[at], s[at + 1]] = [one, two];
    }
    for (let y = 0; y < 50; y += 10) {
      c.set(s.subarray(y, y + 10));
      for (let x = 0; x < 10; x++) s[y + x] ^= ~c[(x + 2) % 10] & c[(x + 4) % 10];
    }
    s[0] ^= ROUNDS[2 * round];
    s[1] ^= ROUNDS[2 * round + 1];
  }
}

/** n bytes of SHAKE-256 of a text shorter than 136 bytes. */
export function shake256(text, n) {
  const state = new Int32Array(50);
  const bytes = new Uint8Array(state.buffer);
  bytes.set(text);
  bytes[text.length] = 0x1f;
  bytes[RATE - 1] ^= 0x80;
  const out = new Uint8Array(n);
  for (let at = 0; at < n; at += RATE) {
    permute(state);
    out.set(bytes.subarray(0, Math.min(RATE, n - at)), at);
  }
  return out;
}

/** The rows of an expert, layer << 16 | index, coded and as floats; ShapeMismatch. */
export function canary_rows(seed, packed, n_rows, n_embd) {
  const fits = n_rows >= 1 && n_rows <= 64 && n_embd > 0 && n_embd % 32 === 0;
  must(fits, "ShapeMismatch", `no canary has ${n_rows} rows of ${n_embd} values`);
  const n = n_rows * n_embd;
  const stream = shake256(concat(seed, pack("I", packed)), n + n / 32);
  const codes = Int8Array.from(stream.subarray(0, n), (byte) => (byte === 128 ? 0 : byte));
  const scales = Float32Array.from(stream.subarray(n), (byte) => (256 + byte) / 32768);
  const floats = Float32Array.from(codes, (code, i) => code * scales[i >> 5]);
  return { n_rows, n_embd, coded: { codes, scales }, floats };
}
