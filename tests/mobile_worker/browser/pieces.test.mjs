import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";
import { ProtocolError } from "../../../mobile_worker/browser/bytes.js";
import { Assembly, Outbox, STREAM, Shelf, parse_piece }
  from "../../../mobile_worker/browser/pieces.js";
import { bytes_of, chance, refused, vectors } from "./support.mjs";

const { pieces } = vectors("protocol/sessions.json");

const content = (number, at, n) => Uint8Array.from({ length: n }, (_, i) => number + at + i);
const credit = (limit) => [0, 1, 2].map(() => ({ offset: 0, limit }));

function outcome(assembly, piece) {
  try {
    const whole = assembly.add(piece);
    return whole ? createHash("sha256").update(whole).digest("hex") : "wait";
  } catch (error) {
    assert.ok(error instanceof ProtocolError, error.stack);
    return "breach";
  }
}

test("pieces in any order come to what Python makes of them", () => {
  for (const steps of pieces) {
    const assembly = new Assembly(new Shelf(2 ** 28));
    for (const [in_class, number, total, at, n, wanted] of steps) {
      const piece = { in_class, number, total, at, content: content(number, at, n) };
      assert.equal(outcome(assembly, piece), wanted);
    }
  }
});

test("messages cut by any credit come whole again", () => {
  const draw = chance(7);
  for (let round = 0; round < 30; round++) {
    const [outbox, assembly] = [new Outbox(2 ** 32 - 2), new Assembly(new Shelf(2 ** 28))];
    const sent = Array.from({ length: 5 }, () => bytes_of(draw, 1 + draw(draw(2) ? 40000 : 3000)));
    sent.forEach((message, i) => assert.ok(outbox.add(message, i % 3)));
    const sending = credit(0);
    const arrived = [];
    while (outbox.n_bytes) {
      const cut = outbox.next_frame(sending, 2);
      if (!cut) {
        assert.ok(outbox.blocked(sending).length);
        sending.forEach((one) => { one.limit += draw(5000); });
        continue;
      }
      const [in_class, frame] = cut;
      if (frame[0] === 0) arrived.push(frame.subarray(STREAM.size));
      else {
        const piece = parse_piece(frame);
        assert.equal(piece.in_class, in_class);
        const whole = assembly.add(piece);
        if (whole) arrived.push(whole);
      }
    }
    const key = (message) => message.length + "-" + message[0];
    assert.deepEqual(arrived.map(key).sort(), sent.map(key).sort());
    assert.equal(assembly.add({ in_class: 0, number: 1, total: 1, at: 0, content: [1] }).length, 1);
  }
});

test("control goes first, and bulk not at all where it is not wanted", () => {
  const outbox = new Outbox(0);
  [2, 1, 0].forEach((in_class) => outbox.add(new Uint8Array([in_class]), in_class));
  const sending = credit(10);
  assert.equal(outbox.next_frame(sending, 1)[0], 0);
  assert.equal(outbox.next_frame(sending, 1)[0], 1);
  assert.equal(outbox.next_frame(sending, 1), null);
  assert.equal(outbox.next_frame(sending, 2)[0], 2);
});

test("the outbox is bounded, and empty again once cleared", () => {
  const outbox = new Outbox(0);
  assert.ok(outbox.add(new Uint8Array(64 << 20), 2));
  assert.ok(!outbox.add(new Uint8Array(1), 0));
  assert.equal(outbox.clear(), 1);
  assert.ok(outbox.add(new Uint8Array(1), 0));
  for (let i = 0; i < 20000; i++) outbox.add(new Uint8Array(0), 1);
  assert.ok(!outbox.add(new Uint8Array(0), 1));
});

test("all peers together fill one shelf: who waits longest goes", () => {
  const shelf = new Shelf(4000);
  const peers = [new Assembly(shelf), new Assembly(shelf), new Assembly(shelf)];
  const half = (number) =>
    ({ in_class: 2, number, total: 3000, at: 0, content: content(number, 0, 1500) });
  const rest = (number) => ({ ...half(number), at: 1500, content: content(number, 1500, 1500) });
  peers.forEach((peer, i) => assert.equal(peer.add(half(i)), null));
  assert.equal(shelf.n_bytes, 3000); // the first peer's is gone
  assert.equal(peers[0].add(rest(0)), null);
  assert.equal(peers[2].add(rest(2)).length, 3000);
  peers.forEach((peer) => peer.clear());
  assert.equal(shelf.n_bytes, 0);
});

test("a frame without a piece, or of no class, is refused", async () => {
  await refused(() => parse_piece(new Uint8Array(22)));
  await refused(() => parse_piece(new Uint8Array(5)));
  const frame = new Uint8Array(30);
  frame[1] = 3;
  await refused(() => parse_piece(frame));
});
