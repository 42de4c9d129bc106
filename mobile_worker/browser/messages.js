/** The messages that a worker sends and takes, and their frames: messages/codec.py,
 * envelope.py and fields.py; what a field means is said at its class in messages/.
 *
 * Integers of 64 bits are BigInt; experts are Uint32Arrays of layer << 16 | index. */
import { check, concat, crc32, is_bytes, layout, pack, utf8 } from "./bytes.js";
import { LEAF_BYTES } from "./leaf.js";
import { decode, encode } from "./msgpack.js";
import { MAX_PRICE_TABLE_BYTES } from "./prices.js";
import { MAX_VOUCHER_BYTES } from "./voucher.js";

const MAX_MESSAGE_BYTES = 64 << 20;
const MAX_HEADER_BYTES = 60000;
const PREFIX = layout("", "number:B n_header:I sum:I");
const [U8, U32, F32, CODED] = [0, 1, 2, 3];
const ITEM_BYTES = [1, 4, 4, 1.125];

// In the header: a kind returns the value that it has checked.
const kind = (fits, what, turn = (value) => value) => (value) => {
  check(fits(value), `no ${what}`);
  return turn(value);
};
const to = (max) => kind((value) => typeof value === "bigint" && value >= 0n && value <= max,
  `integer to ${max}`, (value) => (max < 2 ** 32 ? Number(value) : value));
const text = (max) => kind((value) => typeof value === "string" && utf8(value).length <= max,
  `text of ${max} bytes`);
const bytes = (...lengths) => kind((value) => is_bytes(value) && lengths.includes(value.length),
  `${lengths} bytes`);
const short = (max) => kind((value) => is_bytes(value) && value.length <= max, `${max} bytes`);
const flag = kind((value) => typeof value === "boolean", "boolean");
const [u8, u16, u32] = [8, 16, 32].map((bits) => to(2 ** bits - 1));
const [u64, i63] = [64n, 63n].map((bits) => to(2n ** bits - 1n));
const versions = kind((value) => Array.isArray(value) && value.length && value.length <= 16,
  "versions", (value) => value.map(u16));
const [digest, signature, eight] = [32, 64, 8].map((n) => bytes(n));
const [signed_or_not, reason, record] = [bytes(0, 64), text(200), short(1024)];

// Behind the header: `pack` gives dimensions and bytes, nothing for an empty value.
const words_of = (raw) => new Uint32Array(raw.slice().buffer);
const floats_of = (raw) => new Float32Array(raw.slice().buffer);
const rows = (max, row) => ({
  dtype: U8,
  pack: (value) => value.length && [row ? [value.length / row, row] : [value.length], value],
  unpack(shape, raw) {
    check(raw.length <= max && (!raw.length || shape[1] === row), "rows of another shape");
    return raw;
  },
});
const experts = (max = 1 << 20) => ({
  dtype: U32,
  pack: (value) => value.length && [[value.length], new Uint8Array(value.slice().buffer)],
  unpack(shape, raw) {
    check(shape.length < 2 && raw.length <= 4 * max, `not up to ${max} experts`);
    return words_of(raw);
  },
});
const models = {
  dtype: U8,
  pack: (value) => value.length && [[value.length, 32], concat(...value)],
};
const coded = {
  dtype: CODED,
  unpack(shape, raw) {
    const n = raw.length / ITEM_BYTES[CODED];
    const codes = new Int8Array(raw.buffer, raw.byteOffset, n);
    return n ? { codes, scales: floats_of(raw.subarray(n)) } : null;
  },
};
const floats = { dtype: F32, unpack: (shape, raw) => (raw.length ? floats_of(raw) : null) };
const calls = {
  dtype: U32,
  unpack(shape, raw) {
    check(shape.length < 2 && raw.length <= 4 * (2 ** 20 + 2 ** 17), "too many calls");
    const words = words_of(raw);
    const found = [];
    let at = 0;
    while (at + 2 <= words.length) {
      const [expert, n] = words.subarray(at, at + 2);
      check(n, `expert ${expert} without rows`);
      found.push({ expert, rows: words.subarray(at + 2, (at += 2 + n)) });
    }
    check(at === words.length, "calls that do not fill their words");
    return found;
  },
};
const ranges = {
  dtype: U32,
  unpack(shape, raw) {
    check(shape[1] === 2 && raw.length <= 8 << 16, "not pairs of words");
    const words = words_of(raw);
    return Array.from({ length: shape[0] }, (_, i) => [words[2 * i], words[2 * i + 1]]);
  },
};

/** Of DISPATCH come coded, {codes Int8Array, scales Float32Array}, and floats Float32Array,
 * null for one that is not there, and calls [{expert, rows Uint32Array, serving BigInt}]. */
function check_dispatch({ first_serving, n_embd, n_rows, coded, floats, calls }) {
  const n = n_rows * n_embd;
  check(n && n <= 1 << 26 && (coded || floats), `rows of shape [${n_rows}, ${n_embd}]`);
  check(!coded || (n_embd % 32 === 0 && coded.codes.length === n), "coded rows of another shape");
  check(!floats || floats.length === n, "f32 rows of another shape");
  check(new Set(calls.map(({ expert }) => expert)).size === calls.length, "an expert twice");
  check(first_serving + calls.length <= 2 ** 32, "serving numbers overflow");
  calls.forEach((call, i) => {
    const ascend = call.rows.every((row, at) => !at || row > call.rows[at - 1]);
    check(call.expert < 65536 && ascend && call.rows.at(-1) < n_rows, `rows of ${call.expert}`);
    call.serving = BigInt(first_serving + i);
  });
}

function check_output({ error, n_rows_total, results }) {
  const n = results.length;
  check(error ? !n && !n_rows_total : n && n % n_rows_total === 0, `${n} bytes of results`);
}

function check_accept({ ranges }) {
  let previous = -1;
  for (const [first, last] of ranges) {
    check(previous < first && first <= last, `a range from ${first} to ${last}`);
    previous = last;
  }
}

const says_ack = (wanted) => ({ ack }) => check(ack === wanted, "an ack flag that contradicts");

// Number, class (0 control, 1 interactive, 2 bulk) and fields: the header's, the tensors.
const hello = {
  versions, manifest_hash: bytes(0, 32), profile: u8, self_test: digest, max_rows: u32,
  tab: bytes(0, 8), ack: flag,
};
const voucher = rows(MAX_VOUCHER_BYTES);
const leaves = rows(LEAF_BYTES * 500000, LEAF_BYTES);
const MESSAGES = {
  hello: [1, 0, hello, says_ack(false)],
  hello_ack: [2, 0, hello, says_ack(true)],
  offer: [3, 1, {
    record, memory_bytes: i63, disk_bytes: i63, rate_macs_s: i63, up_bytes_s: i63,
    down_bytes_s: i63, device_class: u8, domain: text(100), models,
  }],
  lease: [4, 1, {
    lease: eight, backbone: digest, backbone_record: record, manifest_hash: digest,
    price_signature: signature, expires_in_s: u32, experts: experts(),
    price_table: rows(MAX_PRICE_TABLE_BYTES),
  }],
  renew: [5, 0, { lease: eight }],
  release: [6, 1, { lease: eight, reason, experts: experts() }],
  held: [7, 1, { lease: eight, experts: experts() }],
  grant: [11, 0, { request: u64, grant: short(4096), signature: signed_or_not, error: reason }],
  get: [12, 0, { request: u64, digest, offset: i63, length: u32 }],
  blob: [13, 2, {
    request: u64, digest, offset: i63, total: i63, error: u8, body: rows(32 << 20),
  }],
  dispatch: [14, 1, {
    request: u64, tab: eight, first_serving: u32, layer: u16, deadline_ms: u32,
    price_epoch: u32, nonce: eight, profile: to(2), n_embd: to(1 << 17), n_rows: to(8192),
    coded, floats, calls,
  }, check_dispatch],
  output: [15, 1, {
    request: u64, error: to(6), compute_us: u32, n_rows_total: to(1 << 20),
    results: rows(MAX_MESSAGE_BYTES),
  }, check_output],
  accept: [16, 0, { tab: eight, ranges }, check_accept],
  cancel: [17, 0, { request: u64 }],
  busy: [18, 0, { request: u64, queued: u32, retry_ms: u32 }],
  draining: [19, 0, { reason }],
  voucher: [20, 2, { worker_signature: signature, voucher, leaves }],
  countersign: [21, 0, { voucher_hash: digest, backbone_signature: signed_or_not, error: reason }],
  refused: [25, 0, { what: u8, reason }],
  file: [26, 2, {
    worker_signature: signed_or_not, backbone_signature: signed_or_not, voucher, leaves,
  }],
  filed: [27, 0, { voucher_hash: digest, status: u8, reason }],
  canary: [28, 1, {
    number: u64, manifest_hash: digest, profile: u8, n_rows: u16, within_ms: u32,
    seed: bytes(0, 32), experts: experts(256), rows: rows(8 << 20),
  }],
  canary_answer: [29, 1, { number: u64, reason, experts: experts(256), hashes: rows(4096, 16) }],
  standing: [36, 0, {
    state: u8, reason: u8, detail: reason, passes: u32, mismatches: u32, timeouts: u32,
    until_s: u32,
  }],
};
const NAMES = Object.fromEntries(Object.entries(MESSAGES).map(([name, [n]]) => [n, name]));

const big = (value) => (Array.isArray(value) ? value.map(big)
  : typeof value === "number" ? BigInt(value) : value);

/** The [class, frame] of a message of this name; ProtocolError if a field is wrong. */
export function encode_message(name, message) {
  const [number, in_class, fields, check_all] = MESSAGES[name];
  check_all?.(message);
  const header = new Map();
  const body = [];
  for (const [key, field] of Object.entries(fields)) {
    const packed = field.pack?.(message[key]);
    if (typeof field === "function") header.set(key, field(big(message[key])));
    if (!packed) continue;
    header.set(key, [field.dtype, ...packed[0]]);
    body.push(packed[1]);
  }
  const raw = encode(header);
  const head = concat([number], pack("I", raw.length));
  const frame = concat(head, pack("I", crc32(head, raw, ...body)), raw, ...body);
  check(frame.length <= MAX_MESSAGE_BYTES, `a message of ${frame.length} bytes`);
  return [in_class, frame];
}

function shape_of(described, dtype) {
  const fine = Array.isArray(described) && described.length > 1 && described.length < 4
    && described.every((n) => typeof n === "bigint" && n >= 0n && n <= MAX_MESSAGE_BYTES);
  const [found, ...shape] = fine ? described.map(Number) : [];
  check(found === dtype, "no tensor of the field's dtype");
  const n_items = shape.reduce((a, b) => a * b);
  const n = n_items * ITEM_BYTES[dtype];
  check(n && n <= MAX_MESSAGE_BYTES && (dtype !== CODED || n_items % 32 === 0), `${n} bytes`);
  return [shape, n];
}

/** The message of a frame, `type` its name; ProtocolError whatever else the bytes are. */
export function parse_message(frame) {
  const { number, n_header, sum } = PREFIX.read(frame);
  const type = NAMES[number];
  check(type && frame.length <= MAX_MESSAGE_BYTES, `a message of type ${number}`);
  let at = PREFIX.size + n_header;
  check(n_header <= MAX_HEADER_BYTES && at <= frame.length, `a header of ${n_header} bytes`);
  check(crc32(frame.subarray(0, 5), frame.subarray(9)) === sum, "a wrong checksum");
  const header = decode(frame.subarray(PREFIX.size, at), 256, 32);
  const [, , fields, check_all] = MESSAGES[type];
  const known = header instanceof Map && [...header.keys()].every((k) => Object.hasOwn(fields, k));
  check(known, "no header, or an unknown key");
  const message = { type };
  for (const [key, field] of Object.entries(fields)) {
    if (typeof field === "function") {
      message[key] = field(header.get(key));
      continue;
    }
    const [shape, n] = header.has(key) ? shape_of(header.get(key), field.dtype) : [[], 0];
    check(field.unpack && n <= frame.length - at, "tensors beyond the message");
    message[key] = field.unpack(shape, frame.subarray(at, (at += n)));
  }
  check(at === frame.length, "bytes behind the tensors");
  check_all?.(message);
  return message;
}
