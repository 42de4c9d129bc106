import assert from "node:assert/strict";
import test from "node:test";
import { concat, from_hex, layout, to_hex, utf8 } from "../../../mobile_worker/browser/bytes.js";
import { aead } from "../../../mobile_worker/browser/crypto.js";
import { NoiseHandshake } from "../../../mobile_worker/browser/noise.js";
import { chance, pair_of, refused, shared_test } from "./support.mjs";

const hex_pair = (hex) => pair_of("X25519", from_hex(hex));
const nonce_of = (n) => concat(new Uint8Array(4), layout("", "n:Q").pack({ n }));

async function sides(pattern, prologues = ["same", "same"], knows = true) {
  const [one, e, other, f] = await Promise.all([1, 2, 3, 4].map((n) => hex_pair(`0${n}`.repeat(32))));
  const remote_static = pattern === "IK" ? (knows ? other : one).public : null;
  const [first, second] = prologues.map(utf8);
  return [
    new NoiseHandshake(
      pattern, { initiator: true, prologue: first, own: one, ephemeral: e, remote_static }),
    new NoiseHandshake(pattern, { initiator: false, prologue: second, own: other, ephemeral: f }),
  ];
}

async function run(initiator, responder, change = (message) => message) {
  const [sides_in_turn, payloads] = [[initiator, responder], []];
  for (let turn = 0; !initiator.finished || !responder.finished; turn++) {
    const [writer, reader] = turn % 2 ? sides_in_turn.slice().reverse() : sides_in_turn;
    const message = change(await writer.write(utf8(`payload ${turn}`)), turn);
    payloads.push(new TextDecoder().decode(await reader.read(message)));
  }
  return payloads;
}

for (const pattern of ["IK", "XX"]) {
  test(`${pattern}: both sides get the same keys and know each other`, async () => {
    const [initiator, responder] = await sides(pattern);
    const payloads = await run(initiator, responder);
    assert.deepEqual(payloads, payloads.map((_, turn) => `payload ${turn}`));
    const [a, b] = [initiator.split(), responder.split()];
    assert.deepEqual(a, b.reverse());
    assert.deepEqual(initiator.handshake_hash, responder.handshake_hash);
    assert.deepEqual(initiator.remote_static, responder.own.public);
    assert.deepEqual(responder.remote_static, initiator.own.public);
  });

  test(`${pattern}: a changed message, prologue or turn ends it`, async () => {
    const draw = chance(5);
    for (let i = 0; i < 40; i++) {
      const bad_turn = draw(pattern === "IK" ? 2 : 3);
      const change = (message, turn) => {
        if (turn !== bad_turn) return message;
        if (draw(4) === 0) return message.subarray(0, draw(message.length));
        const changed = message.slice();
        changed[draw(changed.length)] ^= 1 << draw(8);
        return changed;
      };
      const [initiator, responder] = await sides(pattern);
      try { // in XX the first message is in the clear: what follows shows it
        await run(initiator, responder, change);
        assert.fail("a changed message went through");
      } catch (error) {
        await refused(() => { throw error; });
      }
    }
    await refused(async () => run(...await sides(pattern, ["one", "other"])));
    const [initiator, responder] = await sides(pattern);
    await refused(() => initiator.read(new Uint8Array(96)));
    await refused(() => responder.write(new Uint8Array()));
  });
}

test("IK with another responder's key does not open", async () => {
  await refused(async () => run(...await sides("IK", ["same", "same"], false)));
});

shared_test("published vectors", "vectors/noise/cacophony-ik-xx.json", async ({ vectors }) => {
  const ours = vectors.filter(({ protocol_name }) => protocol_name.endsWith("25519_AESGCM_SHA256"));
  assert.ok(ours.length >= 2);
  for (const vector of ours) await check_vector(vector);
});

async function check_vector(vector) {
  const pattern = vector.protocol_name.split("_")[1];
  const side = async (who, initiator) => new NoiseHandshake(pattern, {
    initiator,
    prologue: from_hex(vector[`${who}_prologue`]),
    own: await hex_pair(vector[`${who}_static`]),
    ephemeral: await hex_pair(vector[`${who}_ephemeral`]),
    remote_static: vector[`${who}_remote_static`] ? from_hex(vector[`${who}_remote_static`]) : null,
  });
  let [writer, reader] = [await side("init", true), await side("resp", false)];
  const n_sent = new Map([[writer, 0], [reader, 0]]);
  for (const { payload, ciphertext } of vector.messages) {
    if (writer.finished) {
      const n = n_sent.get(writer);
      const cipher = await aead(writer.split()[0]);
      const sealed = await cipher.seal(nonce_of(n), from_hex(payload), new Uint8Array());
      n_sent.set(writer, n + 1);
      assert.equal(to_hex(sealed), ciphertext);
    } else {
      const message = await writer.write(from_hex(payload));
      assert.equal(to_hex(message), ciphertext);
      assert.equal(to_hex(await reader.read(message)), payload);
    }
    [writer, reader] = [reader, writer];
  }
  assert.equal(to_hex(writer.handshake_hash), vector.handshake_hash);
}
