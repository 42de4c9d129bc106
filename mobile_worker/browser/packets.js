/** Packets that links carry and the keys of one finished handshake, with byte credit:
 * session/packets.py has the layouts, channel.py, replay.py and flow.py the rules. */
import { check, concat, layout } from "./bytes.js";
import { aead } from "./crypto.js";

export const MAX_PACKET_BYTES = 61440;
/** Classes of messages: control before interactive before bulk. */
export const CLASSES = [0, 1, 2];
export const FIRST_WINDOW_BYTES = 65536;
/** First bytes of packets, and of the frames that are sealed in them. */
export const [IK_1, IK_2, XX_1, XX_2, XX_3, SEALED, UNKNOWN] = [1, 2, 3, 4, 5, 16, 17];
export const [WHOLE, PIECE, CREDIT, BLOCKED, OPEN, PROBE, PROBED, GOODBYE] = [0, 1, 2, 3, 4, 5, 6, 7];

const HANDSHAKE = layout("", "kind:B sender:I receiver:I instance:8s");
const HEAD = layout("\x10", "index:I counter:Q");
const MAX_PACKETS = 2 ** 20;
const MAX_AGE_S = 1800;
const WINDOW = 2048;

/** The bytes of a handshake packet {kind, sender, receiver, instance, noise}. */
export const encode_handshake = (packet) => concat(HANDSHAKE.pack(packet), packet.noise);

/** A handshake packet taken apart, or ProtocolError. */
export function parse_handshake(packet) {
  const found = HANDSHAKE.read(packet);
  const noise = packet.subarray(HANDSHAKE.size);
  check(noise.length && found.kind && found.kind <= XX_3, `a packet of kind ${found.kind}`);
  return { ...found, noise };
}

/** Which of the last 2,048 counters (BigInt) were seen. */
export class ReplayWindow {
  #greatest = -1n;
  #seen = 0n; // bit i: counter #greatest - i

  /** Whether a packet with this counter may be opened. */
  check(counter) {
    const age = this.#greatest - counter;
    return age < 0n || (age < WINDOW && !((this.#seen >> age) & 1n));
  }

  /** Note that an authentic packet had it. */
  commit(counter) {
    const ahead = counter - this.#greatest;
    if (ahead > 0n) {
      const kept = ahead < WINDOW ? BigInt.asUintN(WINDOW, this.#seen << ahead) : 0n;
      this.#seen = kept | 1n;
      this.#greatest = counter;
    } else {
      this.#seen |= 1n << -ahead;
    }
  }
}

/** What arrived of one class, and up to where we granted. */
export class Receiving {
  reached = 0;
  granted = FIRST_WINDOW_BYTES; // the most ever: all of it is taken
  told = FIRST_WINDOW_BYTES;

  arrived(end) {
    check(end <= this.granted, `${end} bytes, above the credit`);
    this.reached = Math.max(this.reached, end);
  }

  /** A new limit worth telling, or null; `waiting`: bytes that are not consumed. */
  grant(window, waiting, force) {
    const limit = this.reached + Math.max(0, window - waiting);
    if (!force && limit - this.told < Math.max(1, window >> 2)) return null;
    this.told = limit;
    this.granted = Math.max(this.granted, limit);
    return limit;
  }
}

/** Keys, counters and credit of one handshake; `terms`: local, remote (indices, u32),
 * initiator, session_id, instance, opened_at (s). */
export class Channel {
  sending = CLASSES.map(() => ({ offset: 0, limit: FIRST_WINDOW_BYTES }));
  receiving = CLASSES.map(() => new Receiving());
  window = new ReplayWindow();
  n_sent = 0;

  static async of(terms, [sending, receiving]) {
    const keys = { to: await aead(sending), from: await aead(receiving) };
    return Object.assign(new Channel(), terms, keys);
  }

  /** The packet of a frame. */
  async seal(frame) {
    const head = HEAD.pack({ index: this.remote, counter: this.n_sent++ });
    return concat(head, await this.to.seal(nonce_of(head), frame, head));
  }

  /** The frame of a packet, once; ProtocolError if seen before or not of our keys. */
  async open(packet) {
    const { counter } = HEAD.read(packet);
    const head = packet.subarray(0, HEAD.size);
    check(this.window.check(counter), `packet ${counter} is repeated or too old`);
    const frame = await this.from.open(nonce_of(head), packet.subarray(HEAD.size), head);
    this.window.commit(counter);
    return frame;
  }

  /** Whether it is time for new keys; the side that did not begin waits longer. */
  is_worn(now) {
    const slack = this.initiator ? 1 : 1.1;
    return this.n_sent >= MAX_PACKETS * slack || now - this.opened_at >= MAX_AGE_S * slack;
  }
}

const nonce_of = (head) => concat([0, 0, 0, 0], head.subarray(5));
