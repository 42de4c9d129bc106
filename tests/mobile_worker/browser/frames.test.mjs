import assert from "node:assert/strict";
import test from "node:test";
import { concat, from_hex, to_hex } from "../../../mobile_worker/browser/bytes.js";
import { answer_challenge, client_nonce, encode_ping, encode_pong, encode_send, encode_watch,
  open_welcome, parse_challenge, parse_deny, parse_frame, subprotocols }
  from "../../../mobile_worker/browser/frames.js";
import { bytes_of, chance, identity_of, plain, refused, same_verdicts, vectors } from "./support.mjs";

const { frames, way_in, names } = vectors("protocol/golden.json");
const hostile = vectors("protocol/hostile.json");
const frame_of = (name) => from_hex(frames[name].frame);

/** What came from a relay, with Python's names for the fields. */
function as_python({ type, ...frame }) {
  const { peer, in_class, peers } = frame;
  if (type === "recv") {
    return plain({
      source: peer, payload: frame.payload, frame_class: in_class, flow: frame.flow,
      age_ms: frame.age_ms, nack: frame.nack,
    });
  }
  if (type === "nack") {
    const { kind, peer: destination, ...rest } = frame;
    return plain({ destination, ...rest });
  }
  if (type === "presence") return plain({ states: peers.map((one) => [one.peer, one.state]) });
  if (type === "seen_from") return plain({ prefixes: peers.map((one) => one.peer) });
  return plain(frame);
}

const comparable = (fields) => fields && (fields.prefixes
  ? { prefixes: fields.prefixes.map(([peer]) => peer) } : fields);

test("frames of a relay are read as in Python", () => {
  for (const name of ["ping", "pong", "status", "restarting", "limits", "recv", "recv_bulk", "nack",
    "gone", "presence", "seen_from"]) {
    assert.deepEqual(as_python(parse_frame(frame_of(name))), comparable(frames[name].fields), name);
  }
});

test("frames to a relay are Python's, to the byte", () => {
  const same = (raw, name) => assert.equal(to_hex(raw), frames[name].frame);
  const peers = (name) => frames[name].fields.peers.map(from_hex);
  same(encode_ping(from_hex(frames.ping.fields.nonce)), "ping");
  same(encode_pong(from_hex(frames.pong.fields.nonce)), "pong");
  same(encode_watch(peers("watch")), "watch");
  same(encode_watch([]), "watch_none");
  for (const name of ["send", "send_empty"]) {
    const { destination, payload, frame_class, flow, ttl_ms, nack } = frames[name].fields;
    same(encode_send(from_hex(destination), from_hex(payload), frame_class,
      { flow, ms: ttl_ms, nack }), name);
  }
});

test("spoilt frames: Python's verdicts", async () => {
  const cases = hostile.frames.map(([raw, fields]) => [raw, comparable(fields)]);
  const read = (raw) => {
    const frame = parse_frame(raw);
    return frame && as_python(frame);
  };
  const skipped = ([raw, fields]) => fields === null && parseInt(raw.slice(0, 2), 16) >= 0x80
    && raw.slice(0, 2) !== "96";
  assert.ok(await same_verdicts(cases.filter((one) => !skipped(one)), read) > 5);
  for (const [raw] of cases.filter(skipped)) assert.equal(parse_frame(from_hex(raw)), null);
});

test("frames of chance are read or refused", async () => {
  const draw = chance(11);
  for (let i = 0; i < 2000; i++) {
    const raw = bytes_of(draw, draw(60));
    if (raw.length) raw[0] = [1, 2, 3, 4, 5, 0x11, 0x12, 0x13, 0x15, 0x96, draw(256)][draw(11)];
    try {
      parse_frame(raw);
    } catch (error) {
      await refused(() => { throw error; });
    }
  }
  await refused(() => encode_send(new Uint8Array(32), new Uint8Array(65536), 0));
});

test("the way in: challenge, proof, welcome, denial", async () => {
  const own = await identity_of(names.one.seeds);
  const challenge = parse_challenge(from_hex(way_in.challenge));
  assert.equal(to_hex(challenge.relay_id), names.relay.peer_id);
  const nonce = from_hex(way_in.nonce);
  const auth = await answer_challenge(challenge, own,
    { host: way_in.host, nonce, role: 1, token: from_hex(way_in.token) });
  assert.equal(to_hex(auth), way_in.auth);
  const welcome = await open_welcome(from_hex(way_in.welcome), challenge, own.peer_id, nonce);
  const { limits, relay_id, signature, ...fields } = way_in.welcome_fields;
  assert.deepEqual(plain(welcome), { ...fields, ...limits });
  assert.equal(relay_id, names.relay.peer_id);
  assert.equal(signature, way_in.welcome.slice(-128));
  assert.deepEqual(subprotocols(welcome.ticket), ["p2pmoe-relay.v1", way_in.subprotocol]);
  assert.deepEqual(subprotocols(), ["p2pmoe-relay.v1"]);
  assert.deepEqual(parse_deny(from_hex(way_in.deny)), { code: 12, retry_ms: 3000, text: "voll" });
  const made = client_nonce(way_in.wall_ms);
  assert.equal(to_hex(made.subarray(0, 8)), way_in.nonce.slice(0, 16));
  assert.equal(made.length, 16);
});

test("a welcome for somebody else, or changed, or not signed, is refused", async () => {
  const draw = chance(12);
  const challenge = parse_challenge(from_hex(way_in.challenge));
  const raw = from_hex(way_in.welcome);
  const [id, nonce] = [from_hex(names.one.peer_id), from_hex(way_in.nonce)];
  await refused(() => open_welcome(raw, challenge, from_hex(names.other.peer_id), nonce));
  await refused(() => open_welcome(raw, challenge, id, nonce.map((byte) => byte ^ 1)));
  await refused(() => open_welcome(raw, { ...challenge, nonce: id }, id, nonce));
  await refused(() => open_welcome(concat(raw, [0]), challenge, id, nonce));
  const signed = [...raw.keys()].filter((at) => at < 18 || at >= raw.length - 64);
  for (let i = 0; i < 60; i++) {
    const changed = raw.slice();
    changed[signed[draw(signed.length)]] ^= 1 << draw(8);
    await refused(() => open_welcome(changed, challenge, id, nonce));
    await refused(() => open_welcome(raw.subarray(0, draw(raw.length)), challenge, id, nonce));
  }
});

test("spoilt challenges and denials: Python's verdicts", async () => {
  await same_verdicts(hostile.challenge, (raw) => plain(parse_challenge(raw)));
  await same_verdicts(hostile.deny, (raw) => plain(parse_deny(raw)));
});
