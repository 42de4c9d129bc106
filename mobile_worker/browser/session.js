/** The end-to-end session with one peer: a state machine without I/O, session/session.py.
 *
 * Its owner puts in messages (`add`), packets (`receive`) and time (`on_time`, a few times
 * a second; `now` is seconds of a clock that never goes back) and takes out packets
 * (`next_packet`) and `replies`. What returns a promise runs one after the other. An error
 * with `breach` is the peer's own doing, any other may be a stranger's. */
import { check, layout, to_hex } from "./bytes.js";
import { Handshakes, random_u32 } from "./handshakes.js";
import * as packets from "./packets.js";
import { Assembly, Outbox, STREAM, parse_piece } from "./pieces.js";

const { CLASSES, FIRST_WINDOW_BYTES } = packets;
const TOKEN = layout("", "kind:B token:Q");
const HINT = layout("\x11", "index:I");
const SEALED = layout("\x10", "index:I counter:Q");
const OLD_KEYS_S = 60;
const MAX_URGENT = 64;
const [BLOCKED_FIRST_S, BLOCKED_LAST_S] = [0.25, 2];

/** One peer's keys, queues and credit. */
export class Session {
  /** Packets that go back by the link that their cause came by. */
  replies = [];
  window_bytes = FIRST_WINDOW_BYTES;
  max_window_bytes = 1 << 20;
  #current = null;
  #old = [];
  #instance = null;
  #suspect = false;
  #raw = [];
  #urgent = [];
  #outbox = new Outbox(random_u32());
  #waiting = CLASSES.map(() => 0);
  #blocked_due = 0;
  #blocked_pause_s = BLOCKED_FIRST_S;
  #next_hint_at = 0;
  #next_reaction_at = 0;
  #last = Promise.resolve();
  #handshakes;
  #assembly;

  /** own: {identity, network, instance (8 B), record() -> our signed bytes, shelf}. */
  constructor(own, peer, record = null) {
    this.record = record;
    this.#handshakes = new Handshakes(own, peer, () => this.record);
    this.#assembly = new Assembly(own.shelf);
  }

  /** Whether messages can be sent at once. */
  get established() {
    return this.#current !== null && !this.#suspect;
  }

  /** The handshake hash of the keys in use. */
  get session_id() {
    return this.#current?.session_id;
  }

  /** Whether `on_time` has something to wait for. */
  get needs_time() {
    return this.#outbox.n_bytes > 0 || this.#handshakes.offer !== null;
  }

  /** Queue a message; false if there is no room. */
  add(message, in_class) {
    return this.#outbox.add(message, in_class);
  }

  /** Prove the peer anew before the next message: it was reported gone. */
  suspect() {
    this.#suspect = true;
  }

  /** Give up handshake, queue and unfinished messages; how many waited to be sent. */
  drop() {
    this.#handshakes.offer = null;
    this.#raw = [];
    this.#assembly.clear();
    return this.#outbox.clear();
  }

  /** Note that a message was taken; whether a grant is to be sent. */
  consumed(in_class, n_bytes) {
    this.#waiting[in_class] -= n_bytes;
    return this.#grant(in_class, false);
  }

  /** Begin a handshake though nothing waits. */
  begin(now) {
    return this.#turn(() => this.established || this.#begin(now));
  }

  /** A packet that says that our process ends, or null. */
  farewell() {
    return this.#turn(() => this.#current?.seal(Uint8Array.of(packets.GOODBYE)) ?? null);
  }

  /** The next [class, packet] to send, none less urgent than `least`, or null. */
  next_packet(now, least = 2) {
    return this.#turn(async () => {
      const channel = this.established ? this.#current : null;
      const wanted = channel ? channel.is_worn(now) : this.#outbox.n_bytes > 0;
      if (wanted && !this.#raw.length) await this.#begin(now);
      if (this.#raw.length) return [0, this.#raw.shift()];
      if (!channel) return null;
      if (this.#urgent.length) return [0, await channel.seal(this.#urgent.shift())];
      const cut = this.#outbox.next_frame(channel.sending, least);
      return cut && [cut[0], await channel.seal(cut[1])];
    });
  }

  /** Repeat what is due; [{type: "failed", n_dropped}] once the peer is given up. */
  on_time(now) {
    return this.#turn(async () => {
      const [packet, gave_up] = await this.#handshakes.repeat(now);
      if (packet) this.#raw.push(packet);
      if (gave_up && !this.established) return [{ type: "failed", n_dropped: this.drop() }];
      if (this.established && now >= this.#blocked_due) this.#say_blocked(now);
      return [];
    });
  }

  /** Take a packet; what it tells: {type: "delivered", message, in_class}, {type:
   * "established", record, restarted, n_dropped} or {type: "farewell"}. */
  receive(packet, now) {
    return this.#turn(async () => {
      check(packet.length <= packets.MAX_PACKET_BYTES, `a packet of ${packet.length} bytes`);
      if (packet[0] === packets.SEALED) return this.#receive_sealed(packet, now);
      if (packet[0] === packets.UNKNOWN) {
        const { index } = HINT.parse(packet);
        if (this.#current?.remote === index) await this.#begin_again(now);
        return [];
      }
      const [answer, result] = await this.#handshakes.take(packets.parse_handshake(packet), now);
      if (answer) this.replies.push(answer);
      if (!result) return [];
      const told = this.#switch(result, now);
      this.#urgent.unshift(Uint8Array.of(packets.OPEN));
      return [told];
    });
  }

  #turn(job) {
    const done = this.#last.then(job);
    this.#last = done.catch(() => {});
    return done;
  }

  async #begin(now) {
    if (this.#handshakes.may_begin(now)) this.#raw.push(await this.#handshakes.begin(now));
  }

  async #begin_again(now) {
    if (now < this.#next_reaction_at || !this.#handshakes.may_begin(now)) return;
    this.#next_reaction_at = now + 1;
    await this.#begin(now);
  }

  async #receive_sealed(packet, now) {
    const { index } = SEALED.read(packet);
    const told = [];
    const is_current = this.#current?.local === index;
    const channel = is_current ? this.#current : this.#find(index, now);
    if (!channel) {
      if (now >= this.#next_hint_at) this.replies.push(HINT.pack({ index }));
      this.#next_hint_at = Math.max(this.#next_hint_at, now + 0.25);
      return told;
    }
    const frame = await channel.open(packet);
    if (!is_current) {
      const record = this.#handshakes.confirm(channel);
      if (record) told.push(this.#switch({ channel, record }, now));
      else await this.#straighten(now);
    }
    this.#suspect = false;
    try {
      await this.#take(channel, frame, told);
    } catch (error) {
      error.breach = true;
      throw error;
    }
    return told;
  }

  /** Begin anew if the peer goes on with old keys long after we changed ours. */
  async #straighten(now) {
    const patience_s = this.#handshakes.goes_first ? 2 : 4;
    if (this.#current && now - this.#current.opened_at > patience_s) await this.#begin_again(now);
  }

  #find(index, now) {
    this.#old = this.#old.filter(([until]) => until > now);
    return this.#handshakes.unconfirmed(index)
      ?? this.#old.find(([, old]) => old.local === index)?.[1];
  }

  #switch({ channel, record }, now) {
    if (this.#current) this.#old.push([now + OLD_KEYS_S, this.#current]);
    const instance = to_hex(channel.instance);
    const changed = this.#instance !== null && this.#instance !== instance;
    const restarted = changed && !this.#suspect;
    const n_dropped = restarted ? this.#outbox.clear() : 0;
    if (changed) {
      this.#assembly.clear();
      this.#old = [];
    }
    this.#current = channel;
    this.#urgent = []; // its offsets are those of the old keys
    this.#instance = instance;
    this.#suspect = false;
    this.#blocked_pause_s = BLOCKED_FIRST_S;
    if (!this.record || this.record.sequence <= record.sequence) this.record = record;
    for (const in_class of CLASSES) this.#grant(in_class, false);
    return { type: "established", record, restarted, n_dropped };
  }

  async #take(channel, frame, told) {
    const [kind] = frame;
    if (kind === packets.PIECE) {
      const piece = parse_piece(frame);
      channel.receiving[piece.in_class].arrived(piece.end);
      const message = this.#assembly.add(piece);
      if (message) this.#deliver(message, piece.in_class, told);
      this.#grant(piece.in_class, false);
    } else if (kind === packets.PROBE || kind === packets.PROBED) {
      const { token } = TOKEN.parse(frame);
      const answer = TOKEN.pack({ kind: packets.PROBED, token });
      if (kind === packets.PROBE) this.replies.push(await channel.seal(answer));
    } else if (kind <= packets.BLOCKED) {
      this.#take_stream(channel, frame, told);
    } else {
      check(kind === packets.OPEN || kind === packets.GOODBYE, `unknown frame ${kind}`);
      if (kind === packets.GOODBYE) told.push({ type: "farewell" });
    }
  }

  #take_stream(channel, frame, told) {
    const message = frame.subarray(STREAM.size);
    const { kind, in_class, offset } = STREAM.read(frame);
    check(in_class < CLASSES.length, `unknown class ${in_class}`);
    check((kind === packets.WHOLE) === message.length > 0, "a frame of a wrong length");
    const end = Number(offset) + message.length;
    if (kind === packets.CREDIT) {
      const sending = channel.sending[in_class];
      sending.limit = Math.max(sending.limit, end);
      this.#blocked_pause_s = BLOCKED_FIRST_S;
      return;
    }
    channel.receiving[in_class].arrived(end);
    if (kind === packets.WHOLE) {
      this.#deliver(message, in_class, told);
      return;
    }
    if (!this.#waiting[in_class]) {
      this.window_bytes = Math.min(this.max_window_bytes, 2 * this.window_bytes);
    }
    this.#grant(in_class, true);
  }

  #deliver(message, in_class, told) {
    this.#waiting[in_class] += message.length;
    told.push({ type: "delivered", message, in_class });
  }

  #grant(in_class, force) {
    if (!this.#current || this.#urgent.length >= MAX_URGENT) return false;
    const receiving = this.#current.receiving[in_class];
    const limit = receiving.grant(this.window_bytes, this.#waiting[in_class], force);
    if (limit === null) return false;
    this.#urgent.push(STREAM.pack({ kind: packets.CREDIT, in_class, offset: limit }));
    return true;
  }

  #say_blocked(now) {
    const { sending } = this.#current;
    const blocked = this.#outbox.blocked(sending);
    if (!blocked.length) return;
    for (const in_class of blocked) {
      const { offset } = sending[in_class];
      this.#urgent.push(STREAM.pack({ kind: packets.BLOCKED, in_class, offset }));
    }
    this.#blocked_due = now + this.#blocked_pause_s;
    this.#blocked_pause_s = Math.min(2 * this.#blocked_pause_s, BLOCKED_LAST_S);
  }
}
