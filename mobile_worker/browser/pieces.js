/** Messages cut into frames, and frames put together again, both bounded: two unfinished
 * messages a peer and class, and one Shelf for all peers together: session/pieces.py. */
import { check, concat, layout } from "./bytes.js";
import { CLASSES, PIECE, WHOLE } from "./packets.js";

const MAX_MESSAGE_BYTES = 64 << 20;
const MAX_QUEUED_BYTES = 64 << 20;
const MAX_QUEUED = 20000;
const MAX_UNFINISHED = 2;
const MIN_PIECE_BYTES = 1024;
const LARGEST = [59000, 59000, 16000];
const HEAD = layout("", "kind:B in_class:B start:Q number:I total:I at:I");
/** Of a frame that names a place in its class's stream. */
export const STREAM = layout("", "kind:B in_class:B offset:Q");

const least_of = ({ message, n_cut }) => Math.min(MIN_PIECE_BYTES, message.length - n_cut);

/** Messages of one peer on their way out, cut as credit allows. */
export class Outbox {
  n_bytes = 0;
  #queues = CLASSES.map(() => []);

  /** first_number: of the first message, u32, drawn at random. */
  constructor(first_number) {
    this.number = first_number;
  }

  /** Queue a message; false if there is no room for it. */
  add(message, in_class) {
    const queue = this.#queues[in_class];
    const fits = this.n_bytes + message.length <= MAX_QUEUED_BYTES && queue.length < MAX_QUEUED;
    if (!fits) return false;
    queue.push({ message, number: this.number, n_cut: 0 });
    this.number = (this.number + 1) >>> 0;
    this.n_bytes += message.length;
    return true;
  }

  /** Drop everything; return how many messages that were. */
  clear() {
    const n = this.#queues.flat().length;
    for (const queue of this.#queues) queue.length = 0;
    this.n_bytes = 0;
    return n;
  }

  /** The next [class, frame] that has credit, none less urgent than `least`, or null. */
  next_frame(sending, least) {
    for (const in_class of CLASSES) {
      const frame = in_class <= least && this.#cut(in_class, sending[in_class]);
      if (frame) return [in_class, frame];
    }
    return null;
  }

  /** The classes in which something waits for credit. */
  blocked(sending) {
    return CLASSES.filter((in_class) => {
      const [first] = this.#queues[in_class];
      return first && sending[in_class].limit - sending[in_class].offset < least_of(first);
    });
  }

  #cut(in_class, sending) {
    const [first] = this.#queues[in_class];
    if (!first) return null;
    const { message, number, n_cut } = first;
    const { offset } = sending;
    const total = message.length;
    const n = Math.min(total - n_cut, LARGEST[in_class], sending.limit - offset);
    if (n < total - n_cut && n < least_of(first)) return null;
    sending.offset += n;
    this.n_bytes -= n;
    first.n_cut += n;
    if (first.n_cut === total) this.#queues[in_class].shift();
    const head = n === total
      ? STREAM.pack({ kind: WHOLE, in_class, offset })
      : HEAD.pack({ kind: PIECE, in_class, start: offset, number, total, at: n_cut });
    return concat(head, message.subarray(n_cut, n_cut + n));
  }
}

/** A PIECE frame taken apart, or ProtocolError; `end`: the stream offset behind it. */
export function parse_piece(frame) {
  const piece = HEAD.read(frame);
  const content = frame.subarray(HEAD.size);
  check(content.length && piece.in_class < CLASSES.length, "a frame without a piece");
  return { ...piece, content, end: Number(piece.start) + content.length };
}

/** Unfinished messages of all peers, the most recently fed last. */
export class Shelf {
  n_bytes = 0;
  #messages = new Set();

  /** Hold at most so many bytes, or one message. */
  constructor(max_bytes) {
    this.max_bytes = max_bytes;
  }

  fed(message, n) {
    this.n_bytes += n;
    message.n_arrived += n;
    this.#messages.delete(message);
    this.#messages.add(message);
    for (const oldest of this.#messages) {
      if (this.n_bytes <= this.max_bytes || oldest === message) break;
      this.drop(oldest);
    }
  }

  drop(message) {
    if (this.#messages.delete(message)) this.n_bytes -= message.n_arrived;
    message.home.delete(message.number);
  }
}

/** Unfinished messages of one peer. */
export class Assembly {
  #homes = CLASSES.map(() => new Map());
  #shelf;

  constructor(shelf) {
    this.#shelf = shelf;
  }

  clear() {
    for (const home of this.#homes) for (const message of home.values()) this.#shelf.drop(message);
  }

  /** Take a piece, in any order; the message if it is complete now, else null. */
  add({ in_class, number, total, at, content }) {
    const n = content.length;
    check(at + n <= total && total <= MAX_MESSAGE_BYTES, `a piece to ${at + n} of ${total}`);
    check(n >= MIN_PIECE_BYTES || at + n === total, `a piece of ${n} bytes`);
    const home = this.#homes[in_class];
    let found = home.get(number);
    if (!found) {
      while (home.size >= MAX_UNFINISHED) this.#shelf.drop(home.values().next().value);
      found = { number, total, home, n_arrived: 0, pieces: new Map() };
      home.set(number, found);
    }
    const fits = found.total === total && !found.pieces.has(at);
    if (fits) {
      found.pieces.set(at, content.slice());
      this.#shelf.fed(found, n);
      if (found.n_arrived < total) return null;
    }
    this.#shelf.drop(found);
    check(fits, `piece ${at} contradicts an earlier one`);
    return join(found);
  }
}

function join({ total, pieces }) {
  const message = new Uint8Array(total);
  let at = 0;
  for (const [offset, piece] of [...pieces].sort(([a], [b]) => a - b)) {
    check(offset === at, `a gap or an overlap at ${offset}`);
    message.set(piece, at);
    at += piece.length;
  }
  return message;
}
