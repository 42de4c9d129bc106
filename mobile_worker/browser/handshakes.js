/** All handshakes with one peer: which are under way, which count. Nothing here sends.
 *
 * Noise carries signed records: a side goes on only if the record is of the peer that the
 * prologue names and holds the very key that Noise proved. Rules, times and numbers:
 * session/handshake.py and handshakes.py. */
import { check, concat, equal, to_hex, utf8 } from "./bytes.js";
import { curves, random_bytes } from "./crypto.js";
import { NoiseHandshake } from "./noise.js";
import { Channel, IK_1, IK_2, XX_1, XX_2, XX_3, encode_handshake } from "./packets.js";
import { parse_record } from "./records.js";

const KINDS = { IK: [IK_1, IK_2], XX: [XX_1, XX_2, XX_3] };
const FIRST_OF = { [IK_1]: "IK", [XX_1]: "XX" };
const [MAX_SENDS, IK_SENDS, MAX_OPEN, BURST, ANSWERS_S] = [6, 3, 2, 20, 2];

export const random_u32 = () => new DataView(random_bytes(4).buffer).getUint32(0);

/** One side of one handshake in progress. */
class Attempt {
  #n_done = 0;
  #remote = 0;
  #record = null;
  #noise;

  async start(own, peer, pattern, initiator, remote_static) {
    Object.assign(this, { own, peer, pattern, initiator, local: random_u32() });
    const ids = [own.identity.peer_id, peer];
    const prologue = concat(utf8("p2pmoe e2e v1"), own.network, ...(initiator ? ids : ids.reverse()));
    const ephemeral = await curves.x25519.generate();
    const terms = { initiator, prologue, own: own.identity.fixed, ephemeral, remote_static };
    this.#noise = new NoiseHandshake(pattern, terms);
    return this;
  }

  /** Our next packet; in the first of XX nothing is encrypted yet, so nothing is said. */
  async write() {
    const kind = KINDS[this.pattern][this.#n_done++];
    const noise = await this.#noise.write(kind === XX_1 ? [] : this.own.record());
    const { instance } = this.own;
    return encode_handshake({ kind, sender: this.local, receiver: this.#remote, instance, noise });
  }

  /** Take the next packet: [what to answer or null, {channel, record} or null]. */
  async take(packet, now) {
    const due = packet.kind === KINDS[this.pattern][this.#n_done];
    check(due && (!this.#n_done || packet.receiver === this.local), "a handshake not due");
    const payload = await this.#noise.read(packet.noise);
    this.#n_done += 1;
    this.#remote = packet.sender;
    if (packet.kind === XX_1) check(!payload.length, "a payload in the clear");
    else this.#record = await this.#check(payload);
    const answer = this.#noise.finished ? null : await this.write();
    if (!this.#noise.finished || !this.#record) return [answer, null];
    const terms = {
      local: this.local, remote: this.#remote, initiator: this.initiator, opened_at: now,
      session_id: this.#noise.handshake_hash, instance: packet.instance,
    };
    const channel = await Channel.of(terms, this.#noise.split());
    return [answer, { channel, record: this.#record }];
  }

  async #check(payload) {
    const record = await parse_record(payload);
    check(equal(record.peer_id, this.peer), "a record of another peer");
    check(equal(record.static_key, this.#noise.remote_static), "a record of another key");
    return record;
  }
}

function put(map, key, value) {
  while (map.size >= MAX_OPEN) map.delete(map.keys().next().value);
  map.set(key, value);
}

/** Open attempts with one peer, and its channels that are not confirmed yet. */
export class Handshakes {
  /** Our own attempt {attempt, packet, due, ...}, or null. */
  offer = null;
  #answers = new Map();
  #unconfirmed = new Map();
  #hold_until = -Infinity;
  #budget = BURST;
  #budget_at = 0;

  /** record: gives the peer's record as known now, or null. */
  constructor(own, peer, record) {
    Object.assign(this, { own, peer, record });
    this.goes_first = to_hex(own.identity.peer_id) < to_hex(peer);
  }

  /** Whether to begin one of our own, if new keys are needed. */
  may_begin(now) {
    return !this.offer && now >= this.#hold_until;
  }

  /** Begin an attempt of our own; its first packet. */
  async begin(now) {
    const made = await this.#make(this.record() ? "IK" : "XX");
    this.offer = { ...made, due: now + 1, pause_s: 1, n_sent: 1, broken: false };
    return made.packet;
  }

  /** Take a packet: [answer or null, {channel, record} to use at once, or null]. */
  async take(packet, now) {
    if (FIRST_OF[packet.kind]) return [await this.#answer(packet, now), null];
    if (packet.kind !== XX_3) return this.#finish(packet, now);
    const attempt = this.#answers.get(packet.receiver);
    check(attempt, "no such handshake");
    this.#answers.delete(packet.receiver);
    const [, result] = await attempt.take(packet, now);
    this.#set_aside(result, now);
    return [null, null];
  }

  /** The record of a channel of the peer, now that a packet of it has opened, or null. */
  confirm(channel) {
    const result = this.#unconfirmed.get(channel.local);
    if (!result) return null;
    this.#unconfirmed.clear();
    this.offer = null;
    return result.record;
  }

  /** The channel with this index that waits for its first packet. */
  unconfirmed(index) {
    return this.#unconfirmed.get(index)?.channel;
  }

  /** [the packet that is due again or null, whether we have given up]. */
  async repeat(now) {
    const { offer } = this;
    if (!offer || now < offer.due) return [null, false];
    if (offer.n_sent >= MAX_SENDS) {
      this.offer = null;
      return [null, true];
    }
    if (offer.broken || (offer.attempt.pattern === "IK" && offer.n_sent >= IK_SENDS)) {
      Object.assign(offer, await this.#make("XX"), { broken: false });
    }
    offer.n_sent += 1;
    offer.pause_s *= 1.5;
    offer.due = now + offer.pause_s;
    return [offer.packet, false];
  }

  async #make(pattern) {
    const remote_static = pattern === "IK" ? this.record().static_key : null;
    const attempt = await new Attempt().start(this.own, this.peer, pattern, true, remote_static);
    return { attempt, packet: await attempt.write() };
  }

  async #finish(packet, now) {
    const { offer } = this;
    const due = offer && !offer.broken && packet.receiver === offer.attempt.local;
    check(due, "an answer that nobody waits for");
    offer.broken = true;
    const taken = await offer.attempt.take(packet, now);
    this.offer = null;
    this.#unconfirmed.clear();
    return taken;
  }

  async #answer(packet, now) {
    if (this.offer && this.goes_first) return null;
    const earned = Math.max(0, now - this.#budget_at) * ANSWERS_S;
    this.#budget = Math.min(BURST, this.#budget + earned);
    this.#budget_at = now;
    check(this.#budget >= 1, "too many handshakes");
    this.#budget -= 1;
    const attempt = await new Attempt().start(this.own, this.peer, FIRST_OF[packet.kind], false);
    const [answer, result] = await attempt.take(packet, now);
    if (result) this.#set_aside(result, now);
    else put(this.#answers, attempt.local, attempt);
    this.#hold(now);
    return answer;
  }

  #set_aside(result, now) {
    check(result, "a handshake that did not finish");
    put(this.#unconfirmed, result.channel.local, result);
    this.#hold(now);
  }

  /** Wait for the peer's first packet before we begin or repeat ourselves. */
  #hold(now) {
    this.#hold_until = now + 1;
    if (this.offer) this.offer.due = Math.max(this.offer.due, now + 1);
  }
}
