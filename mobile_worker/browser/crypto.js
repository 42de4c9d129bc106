/** SHA-256, HMAC, AES-GCM, Ed25519 and X25519. SHA-256 is computed here, at once, since trees
 * and rows are many short texts (FIPS 180-4); the rest is WebCrypto's, the two curves what
 * `choose_curves` was given where a browser lacks them. Weak keys are refused as in
 * relay/keys.py and session/noise.py. */
import { ProtocolError, check, concat, to_hex, utf8, view_of } from "./bytes.js";

const { subtle } = globalThis.crypto;
const bytes = (buffer) => new Uint8Array(buffer);

/** n bytes of the system's random source. */
export const random_bytes = (n) => crypto.getRandomValues(bytes(n));

function primes(power, n) { // 32 bits behind the point of roots of the first primes
  const found = [];
  for (let p = 2; found.length < n; p++) {
    let q = 2;
    while (p % q) q++;
    if (q === p) found.push((p ** power % 1) * 2 ** 32);
  }
  return Int32Array.from(found, (x) => x | 0);
}

const K = primes(1 / 3, 64);
const START = primes(1 / 2, 8);
const turn = (x, n) => (x >>> n) | (x << (32 - n));

function compress(state, view, at, w) {
  for (let i = 0; i < 64; i++) {
    const x = w[i - 15];
    const y = w[i - 2];
    w[i] = i < 16 ? view.getInt32(at + 4 * i)
      : w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + w[i - 7]
        + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i++) {
    const one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];
    const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((x, i) => { state[i] += x; });
}

/** SHA-256 of all parts together, 32 bytes. */
export function sha256(...parts) {
  const text = concat(...parts);
  const padded = new Uint8Array((text.length + 72) & ~63);
  padded.set(text);
  padded[text.length] = 0x80;
  const view = view_of(padded);
  view.setBigUint64(padded.length - 8, BigInt(text.length) * 8n);
  const [state, w] = [START.slice(), new Int32Array(64)];
  for (let at = 0; at < padded.length; at += 64) compress(state, view, at, w);
  const found = bytes(32);
  state.forEach((word, i) => view_of(found).setInt32(4 * i, word));
  return found;
}

/** SHA-256 of many bytes, off this thread. */
export const digest = async (raw) => bytes(await subtle.digest("SHA-256", raw));

/** HMAC-SHA256 under a key of at most 64 bytes. */
export function hmac(key, ...parts) {
  const block = concat(key, bytes(64 - key.length));
  const inner = sha256(block.map((byte) => byte ^ 0x36), ...parts);
  return sha256(block.map((byte) => byte ^ 0x5c), inner);
}

/** AES-256-GCM under one key; `head` is authenticated too. */
export async function aead(raw) {
  const key = await subtle.importKey("raw", raw, "AES-GCM", false, ["encrypt", "decrypt"]);
  const terms = (iv, additionalData) => ({ name: "AES-GCM", iv, additionalData });
  return {
    seal: async (nonce, text, head) => bytes(await subtle.encrypt(terms(nonce, head), key, text)),
    async open(nonce, sealed, head) {
      try {
        return bytes(await subtle.decrypt(terms(nonce, head), key, sealed));
      } catch {
        throw new ProtocolError("sealed bytes that do not open");
      }
    },
  };
}

function web_curve(name, uses) {
  const key_of = (raw, use) => subtle.importKey("raw", raw, name, true, use);
  return {
    async generate() {
      const { publicKey, privateKey } = await subtle.generateKey(name, false, uses);
      return { public: bytes(await subtle.exportKey("raw", publicKey)), private: privateKey };
    },
    sign: async (key, text) => bytes(await subtle.sign(name, key, text)),
    verify: async (key, text, signature) =>
      subtle.verify(name, await key_of(key, ["verify"]), signature, text),
    exchange: async (key, other) =>
      bytes(await subtle.deriveBits({ name, public: await key_of(other, []) }, key, 256)),
  };
}

/** The curves in use: `generate` gives {public: 32 bytes, private}; ed25519 has `sign` and
 * `verify`, x25519 `exchange`. */
export const curves = {
  ed25519: web_curve("Ed25519", ["sign", "verify"]),
  x25519: web_curve("X25519", ["deriveBits"]),
};

/** Try both; take one that WebCrypto lacks from what `load` resolves to, an object like
 * `curves`. Return the names of those taken. */
export async function choose_curves(load) {
  const taken = [];
  for (const name of Object.keys(curves)) {
    try {
      await curves[name].generate();
    } catch {
      curves[name] = (await load())[name];
      taken.push(name);
    }
  }
  return taken;
}

const P = 2n ** 255n - 19n;
const D = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;
const Y8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022n;

/** 32 bytes that can be somebody's Ed25519 key; ProtocolError for all others. */
export function check_peer_id(raw) {
  check(raw.length === 32, `a peer id of ${raw.length} bytes`);
  const y = BigInt("0x" + to_hex(raw.slice().reverse())) & (2n ** 255n - 1n);
  check(y < P, "a peer id not in canonical form");
  check(![0n, 1n, P - 1n, Y8, P - Y8].includes(y), "a peer id of small order");
  let root = 1n; // by Euler: (y^2 - 1)(d y^2 + 1) is a square if the point exists
  let base = ((y * y - 1n) * (D * y * y + 1n)) % P;
  for (let power = (P - 1n) / 2n; power; power >>= 1n) {
    if (power & 1n) root = (root * base) % P;
    base = (base * base) % P;
  }
  check(root === 1n, "a peer id that is no point of the curve");
  return raw;
}

/** Whether this peer's key signed domain and text. */
export async function verify(peer_id, domain, text, signature) {
  try {
    return signature.length === 64
      && await curves.ed25519.verify(check_peer_id(peer_id), concat(utf8(domain), text), signature);
  } catch {
    return false;
  }
}

/** The secret that two X25519 keys share; ProtocolError for a key of small order. */
export async function exchange(key, other) {
  const secret = await curves.x25519.exchange(key, other).catch(() => []);
  check(secret.some((byte) => byte), "a key of small order");
  return secret;
}

/** Who this page is: an Ed25519 pair that signs and an X25519 pair for sessions. */
export class Identity {
  constructor(signing, fixed) {
    Object.assign(this, { signing, fixed, peer_id: signing.public });
  }

  static async generate() {
    return new Identity(await curves.ed25519.generate(), await curves.x25519.generate());
  }

  /** The 64-byte signature of domain and text. */
  sign(domain, text) {
    return curves.ed25519.sign(this.signing.private, concat(utf8(domain), text));
  }
}
