import assert from "node:assert/strict";
import test from "node:test";
import { random_bytes } from "../../../mobile_worker/browser/crypto.js";
import { Channel, Receiving, ReplayWindow, encode_handshake, parse_handshake }
  from "../../../mobile_worker/browser/packets.js";
import { bytes_of, chance, refused, vectors } from "./support.mjs";

const { replays, credits } = vectors("protocol/sessions.json");

test("the replay window decides as Python's", () => {
  for (const { counters, taken } of replays) {
    const window = new ReplayWindow();
    counters.forEach((counter, i) => {
      assert.equal(window.check(BigInt(counter)), taken[i]);
      if (taken[i]) window.commit(BigInt(counter));
    });
  }
});

test("credit is granted as in Python", () => {
  const receiving = new Receiving();
  for (const [end, window, waiting, force, told] of credits) {
    receiving.arrived(end);
    assert.equal(receiving.grant(window, waiting, force), told);
  }
});

test("more than was granted is refused", async () => {
  await refused(() => new Receiving().arrived(65537));
});

test("a handshake packet goes both ways", async () => {
  const packet = { kind: 2, sender: 1, receiver: 2 ** 32 - 1, instance: random_bytes(8),
    noise: random_bytes(5) };
  const raw = encode_handshake(packet);
  assert.deepEqual(parse_handshake(raw), packet);
  for (let n = 0; n < 18; n++) await refused(() => parse_handshake(raw.subarray(0, n)));
  for (const kind of [0, 6, 16]) {
    await refused(() => parse_handshake(encode_handshake({ ...packet, kind })));
  }
});

async function pair() {
  const keys = [random_bytes(32), random_bytes(32)];
  const terms = { local: 1, remote: 2, initiator: true, opened_at: 0 };
  return [await Channel.of(terms, keys),
    await Channel.of({ local: 2, remote: 1, initiator: false, opened_at: 0 }, keys.slice().reverse())];
}

test("a packet opens once, in any order, and not when changed", async () => {
  const draw = chance(6);
  const [one, other] = await pair();
  const frames = Array.from({ length: 50 }, () => bytes_of(draw, draw(40)));
  const packets = [];
  for (const frame of frames) packets.push(await one.seal(frame));
  for (let i = packets.length - 1; i >= 0; i--) {
    const changed = packets[i].slice();
    changed[draw(changed.length)] ^= 1 << draw(8);
    if (changed[0] === 16) await refused(() => other.open(changed));
    assert.deepEqual(await other.open(packets[i]), frames[i]);
    await refused(() => other.open(packets[i]));
  }
  await refused(() => one.open(packets[0]));
  await refused(() => other.open(packets[0].subarray(0, 12)));
});

test("what no key sealed does not move the window", async () => {
  const [one, other] = await pair();
  const far = await one.seal(new Uint8Array(3));
  far[5] = 0x7f; // the counter's first byte
  await refused(() => other.open(far));
  assert.equal((await other.open(await one.seal(new Uint8Array(3)))).length, 3);
});

test("keys wear by packets and by age, later for the side that did not begin", async () => {
  const [one, other] = await pair();
  assert.ok(!one.is_worn(1799) && one.is_worn(1800));
  assert.ok(!other.is_worn(1979) && other.is_worn(1981));
  one.n_sent = other.n_sent = 2 ** 20;
  assert.ok(one.is_worn(0) && !other.is_worn(0));
});
