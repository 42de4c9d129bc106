import assert from "node:assert/strict";
import test from "node:test";
import { concat } from "../../../mobile_worker/browser/bytes.js";
import { Identity, random_bytes } from "../../../mobile_worker/browser/crypto.js";
import { Handshakes } from "../../../mobile_worker/browser/handshakes.js";
import { parse_handshake } from "../../../mobile_worker/browser/packets.js";
import { parse_record, sign_record } from "../../../mobile_worker/browser/records.js";
import { refused } from "./support.mjs";

const TERMS = { role: 1, relays: [], self_test: new Uint8Array(32), not_after_us: 0, sequence: 1 };
const NETWORK = random_bytes(32);

async function pair(knows = true) {
  const identities = [await Identity.generate(), await Identity.generate()];
  const records = await Promise.all(identities.map((identity) => sign_record(identity, TERMS)));
  const parsed = await Promise.all(records.map(parse_record));
  return identities.map((identity, i) => new Handshakes(
    { identity, network: NETWORK, instance: random_bytes(8), record: () => records[i] },
    identities[1 - i].peer_id, () => (knows ? parsed[1 - i] : null)));
}

const take = (side, packet, now = 0) => side.take(parse_handshake(packet), now);

test("IK: an answer makes keys for one, a first packet for the other", async () => {
  const [a, b] = await pair();
  const [answer] = await take(b, await a.begin(0));
  const [nothing, { channel }] = await take(a, answer);
  assert.equal(nothing, null);
  const waiting = b.unconfirmed(channel.remote);
  assert.deepEqual(await waiting.open(await channel.seal(new Uint8Array(2))), new Uint8Array(2));
  assert.deepEqual(b.confirm(waiting).peer_id, a.own.identity.peer_id);
  assert.equal(b.confirm(waiting), null);
  assert.equal(b.unconfirmed(channel.remote), undefined);
});

test("XX: three packets", async () => {
  const [a, b] = await pair(false);
  const [second] = await take(b, await a.begin(0));
  const [third, result] = await take(a, second);
  assert.deepEqual(await take(b, third), [null, null]);
  assert.ok(b.unconfirmed(result.channel.remote));
  await refused(() => take(b, third));
});

test("an answer that is changed breaks the offer, which goes on as XX", async () => {
  const [a, b] = await pair();
  const [answer] = await take(b, await a.begin(0));
  const changed = answer.slice();
  changed[changed.length - 1] ^= 1;
  await refused(() => take(a, changed));
  await refused(() => take(a, answer)); // too late
  const [packet] = await a.repeat(1);
  assert.equal(packet[0], 3);
});

test("the smaller id goes on if both begin at once", async () => {
  const sides = await pair();
  const packets = [await sides[0].begin(0), await sides[1].begin(0)];
  const answers = [(await take(sides[0], packets[1]))[0], (await take(sides[1], packets[0]))[0]];
  assert.deepEqual(answers.map((answer) => answer === null), sides.map((side) => side.goes_first));
});

test("answers are bounded in number and rate", async () => {
  const [a, b] = await pair(false);
  let n = 0;
  try {
    for (; n < 40; n++) {
      a.offer = null;
      await take(b, await a.begin(0), 5);
    }
  } catch (error) {
    await refused(() => { throw error; });
  }
  assert.equal(n, 20);
  a.offer = null;
  assert.ok((await take(b, await a.begin(0), 6))[0]);
  assert.ok(!b.may_begin(6.5) && b.may_begin(7));
});

test("a payload in the clear is refused", async () => {
  const [a, b] = await pair(false);
  await refused(async () => take(b, concat(await a.begin(0), [1])));
});
