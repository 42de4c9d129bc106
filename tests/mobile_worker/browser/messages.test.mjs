import assert from "node:assert/strict";
import test from "node:test";
import { from_hex, to_hex } from "../../../mobile_worker/browser/bytes.js";
import { encode_message, parse_message } from "../../../mobile_worker/browser/messages.js";
import { bytes_of, chance, plain, refused, same_verdicts, vectors } from "./support.mjs";

const golden = vectors("messages/golden.json");
const hostile = vectors("protocol/hostile.json").messages;
const raw_of = (typed) => new Uint8Array(typed.buffer, typed.byteOffset, typed.byteLength);

const SENT = { // class of each
  hello: 0, hello_ack: 0, offer: 1, renew: 0, release: 1, held: 1, get: 0, output: 1, busy: 0,
  draining: 0, voucher: 2, refused: 0, file: 2, canary_answer: 1, blob: 2, cancel: 0,
};
const BYTES = new Set(["manifest_hash", "self_test", "tab", "record", "lease", "digest", "body",
  "results", "voucher", "worker_signature", "backbone_signature", "leaves", "hashes"]);

/** Fields as Python writes them, from what is read here. */
function as_python({ type, ...fields }) {
  if (type === "dispatch") {
    const { coded, floats, calls } = fields;
    return plain({
      ...fields,
      coded: coded && { codes: raw_of(coded.codes), scales: raw_of(coded.scales) },
      floats: floats && raw_of(floats),
      calls: calls.map(({ expert, rows }) => ({ index: expert, rows })),
    });
  }
  const split = (packed) => Array.from(packed, (id) => ({ layer: id >>> 16, index: id & 65535 }));
  return plain(fields.experts ? { ...fields, experts: split(fields.experts) } : fields);
}

/** Fields for `encode_message`, from what Python wrote. */
function as_here(fields) {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => {
    if (key === "experts") return [key, Uint32Array.from(value, (id) => id.layer * 65536 + id.index)];
    if (key === "models") return [key, value.map(from_hex)];
    if (BYTES.has(key)) return [key, from_hex(value)];
    return [key, typeof value === "string" && /^\d{16,}$/.test(value) ? BigInt(value) : value];
  }));
}

test("messages to others are Python's, to the byte", () => {
  for (const [name, in_class] of Object.entries(SENT)) {
    const [found, frame] = encode_message(name, as_here(golden[name].fields));
    assert.equal(to_hex(frame), golden[name].frame, name);
    assert.equal(found, in_class, name);
  }
});

test("messages from others are read as in Python", () => {
  for (const name of Object.keys(hostile)) {
    const message = parse_message(from_hex(golden[name].frame));
    assert.equal(message.type, name);
    assert.deepEqual(as_python(message), golden[name].fields, name);
  }
});

test("spoilt messages: Python's verdicts, some hundred", async () => {
  let [n, n_good] = [0, 0];
  for (const [name, cases] of Object.entries(hostile)) {
    n += cases.length;
    n_good += await same_verdicts(cases, (raw) => {
      const message = parse_message(raw);
      assert.equal(message.type, name);
      return as_python(message);
    });
  }
  assert.ok(n >= 300 && n_good >= 30, `${n}, of which ${n_good} are good`);
});

test("the rows of a dispatch lie in typed arrays, its servings are numbered", () => {
  const { coded, floats, calls } = parse_message(from_hex(golden.dispatch.frame));
  const { codes, scales } = coded;
  assert.ok(codes instanceof Int8Array && codes.length === 128 && codes[127] === 127);
  assert.ok(scales instanceof Float32Array && scales.length === 4 && floats === null);
  assert.deepEqual(calls, [
    { expert: 5, rows: new Uint32Array([0, 1]), serving: 1000n },
    { expert: 9, rows: new Uint32Array([1]), serving: 1001n },
  ]);
});

test("messages that no worker takes are refused, in use or not", async () => {
  for (const name of ["offer", "manifest", "demand", "placement", "grant_request", "open", "opened",
    "recompute", "recomputed", "audit", "verdict", "paid", "standby", "booked"]) {
    await refused(() => parse_message(from_hex(golden[name].frame)));
  }
});

test("fields that do not fit are not sent", async () => {
  const busy = { request: 1, queued: 0, retry_ms: 0 };
  const wrong = [["busy", { ...busy, request: -1 }], ["busy", { ...busy, request: 2n ** 64n }],
    ["draining", { reason: "a".repeat(201) }], ["renew", { lease: new Uint8Array(7) }],
    ["hello", { ...as_here(golden.hello.fields), ack: true }],
    ["output", { request: 1, error: 1, compute_us: 0, n_rows_total: 0, results: new Uint8Array(1) }],
    ["output", { request: 1, error: 0, compute_us: 0, n_rows_total: 2, results: new Uint8Array(3) }],
    ["output", { request: 1, error: 0, compute_us: 0, n_rows_total: 0, results: new Uint8Array(0) }]];
  for (const [name, fields] of wrong) await refused(() => encode_message(name, fields));
});

test("bytes of chance are refused", async () => {
  const draw = chance(13);
  const frames = Object.keys(hostile).map((name) => from_hex(golden[name].frame));
  for (let i = 0; i < 600; i++) {
    const frame = draw(3) ? frames[draw(frames.length)].slice() : bytes_of(draw, draw(40));
    if (frame.length) frame[draw(frame.length)] ^= 1 << draw(8); // the checksum finds it
    await refused(() => parse_message(frame));
  }
});
