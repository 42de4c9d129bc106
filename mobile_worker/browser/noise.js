/** The Noise handshakes IK and XX with 25519, AESGCM and SHA256: session/noise.py.
 * What is out of turn, cut short or does not open is a ProtocolError, after which the
 * handshake cannot be continued. */
import { check, concat, layout, utf8 } from "./bytes.js";
import { aead, exchange, hmac, sha256 } from "./crypto.js";

const PATTERNS = {
  IK: [["e", "es", "s", "ss"], ["e", "ee", "se"]],
  XX: [["e"], ["e", "ee", "s", "es"], ["s", "se"]],
};
const NONCE = layout("\0\0\0\0", "n:Q");

function hkdf(chaining_key, material) {
  const temporary = hmac(chaining_key, material);
  const first = hmac(temporary, [1]);
  return [first, hmac(temporary, first, [2])];
}

/** One side of one handshake: `write` and `read` in turn, then `split`. */
export class NoiseHandshake {
  #cipher = null;
  #nonce = 0;
  #n_done = 0;

  /** own, ephemeral: our key pairs; remote_static: needed by the initiator of IK. */
  constructor(pattern, { initiator, prologue, own, ephemeral, remote_static = null }) {
    Object.assign(this, { pattern, initiator, own, ephemeral, remote_static });
    this.handshake_hash = utf8(`Noise_${pattern}_25519_AESGCM_SHA256\0\0\0\0`);
    this.chaining_key = this.handshake_hash;
    this.#mix(prologue);
    if (pattern === "IK") this.#mix(initiator ? remote_static : own.public);
  }

  get finished() {
    return this.#n_done === PATTERNS[this.pattern].length;
  }

  /** Our next message with this payload. */
  async write(payload) {
    const parts = [];
    for (const step of this.#steps(true)) {
      if (step === "e") parts.push(this.#mix(this.ephemeral.public));
      else if (step === "s") parts.push(await this.#seal(this.own.public));
      else await this.#mix_dh(step);
    }
    parts.push(await this.#seal(payload));
    this.#n_done += 1;
    return concat(...parts);
  }

  /** The payload of the other side's next message. */
  async read(message) {
    let at = 0;
    for (const step of this.#steps(false)) {
      if (step.length > 1) {
        await this.#mix_dh(step);
        continue;
      }
      const n = step === "s" && this.#cipher ? 48 : 32;
      const raw = message.subarray(at, (at += n));
      check(raw.length === n, "a handshake message cut short");
      if (step === "e") this.remote_ephemeral = this.#mix(raw);
      else this.remote_static = await this.#open(raw);
    }
    const payload = await this.#open(message.subarray(at));
    this.#n_done += 1;
    return payload;
  }

  /** Our sending and our receiving key, 32 bytes each, once finished. */
  split() {
    const keys = hkdf(this.chaining_key, []);
    return this.initiator ? keys : keys.reverse();
  }

  #steps(ours) {
    const writes = (this.#n_done % 2 === 0) === this.initiator;
    check(!this.finished && writes === ours, "a handshake message out of turn");
    return PATTERNS[this.pattern][this.#n_done];
  }

  async #mix_dh([first, second]) { // the initiator's key, the responder's
    const [ours, theirs] = this.initiator ? [first, second] : [second, first];
    const own = ours === "e" ? this.ephemeral : this.own;
    const other = theirs === "e" ? this.remote_ephemeral : this.remote_static;
    const [next, key] = hkdf(this.chaining_key, await exchange(own.private, other));
    this.chaining_key = next;
    this.#cipher = await aead(key);
    this.#nonce = 0;
  }

  #mix(piece) {
    this.handshake_hash = sha256(this.handshake_hash, piece);
    return piece;
  }

  async #seal(text) {
    return this.#mix(await this.#crypt("seal", text));
  }

  async #open(sealed) {
    const text = await this.#crypt("open", sealed);
    this.#mix(sealed);
    return text;
  }

  #crypt(way, text) {
    const nonce = () => NONCE.pack({ n: this.#nonce++ });
    return this.#cipher ? this.#cipher[way](nonce(), text, this.handshake_hash) : text;
  }
}
