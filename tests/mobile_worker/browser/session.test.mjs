// Sessions and their handshakes: two in one process, and each side of Python's.
import assert from "node:assert/strict";
import test from "node:test";
import { from_hex, to_hex } from "../../../mobile_worker/browser/bytes.js";
import { Identity, curves, random_bytes } from "../../../mobile_worker/browser/crypto.js";
import { Channel } from "../../../mobile_worker/browser/packets.js";
import { Shelf } from "../../../mobile_worker/browser/pieces.js";
import { parse_record, sign_record } from "../../../mobile_worker/browser/records.js";
import { Session } from "../../../mobile_worker/browser/session.js";
import { bytes_of, chance, drawn, identity_of, pair_of, refused, vectors } from "./support.mjs";

const { sessions } = vectors("protocol/sessions.json");
const { names, network } = vectors("protocol/golden.json");
const NETWORK = from_hex(network);
const TERMS = { role: 1, relays: [], self_test: new Uint8Array(32), not_after_us: 0, sequence: 1 };

async function own_side(identity, changes = {}) {
  const record = await sign_record(identity, TERMS);
  return {
    identity, network: NETWORK, instance: random_bytes(8), record: () => record,
    shelf: new Shelf(2 ** 28), ...changes,
  };
}

async function pair({ knows = true, changes = {} } = {}) {
  const [a, b] = [await Identity.generate(), await Identity.generate()];
  const [own_a, own_b] = [await own_side(a), await own_side(b, changes)];
  const known = async (own) => (knows ? parse_record(own.record()) : null);
  return [{ own: own_a, session: new Session(own_a, b.peer_id, await known(own_b)), told: [] },
    { own: own_b, session: new Session(own_b, a.peer_id, await known(own_a)), told: [] }];
}

async function packets_of({ session }, now) {
  const found = session.replies.splice(0);
  for (let next; (next = await session.next_packet(now));) found.push(next[1]);
  return found;
}

/** Carry packets both ways until both are silent; `way` may drop or reorder some. */
async function exchange(sides, now = 0, way = (packets) => packets) {
  for (let quiet = 0; quiet < 2;) {
    for (const [from, to] of [sides, sides.slice().reverse()]) {
      const packets = way(await packets_of(from, now), from);
      quiet = packets.length ? 0 : quiet + 1;
      for (const packet of packets) to.told.push(...await to.session.receive(packet, now));
    }
  }
}

const of = ({ told }, type) => told.filter((one) => one.type === type);
const messages = (side) => of(side, "delivered").map(({ message }) => to_hex(message));

for (const knows of [true, false]) {
  test(`both ways, ${knows ? "with" : "without"} records`, async () => {
    const sides = await pair({ knows });
    const [a, b] = sides;
    assert.ok(a.session.add(new Uint8Array([1, 2]), 1));
    assert.ok(a.session.needs_time && !a.session.established);
    await exchange(sides);
    b.session.add(new Uint8Array([3]), 0);
    await exchange(sides);
    assert.deepEqual([messages(a), messages(b)], [["03"], ["0102"]]);
    assert.deepEqual(a.session.session_id, b.session.session_id);
    assert.deepEqual(of(b, "established")[0].record.peer_id, a.own.identity.peer_id);
    assert.ok(a.session.established && !a.session.needs_time);
  });
}

test("both begin at once: one session comes of it", async () => {
  const sides = await pair();
  sides.forEach(({ session }, i) => session.add(new Uint8Array([i]), 1));
  for (let now = 0; now < 4; now += 0.5) {
    for (const side of sides) side.told.push(...await side.session.on_time(now));
    await exchange(sides, now);
  }
  assert.deepEqual(sides.map(messages), [["01"], ["00"]]);
});

test("large messages pass through the credit, as fast as they are consumed", async () => {
  const sides = await pair();
  const [a, b] = sides;
  b.session.max_window_bytes = 1 << 18;
  const sent = [1, 2, 3, 4].map((seed) => bytes_of(chance(seed), 100000));
  for (const message of sent) a.session.add(message, 2);
  const [arrived, told] = [[], b.told];
  for (let now = 0; now < 60 && arrived.length < sent.length; now++) {
    await exchange(sides, now);
    for (const side of sides) await side.session.on_time(now);
    for (const { message } of told.splice(0).filter(({ type }) => type === "delivered")) {
      arrived.push(message);
      b.session.consumed(2, message.length);
    }
  }
  assert.deepEqual(arrived, sent);
  assert.ok(b.session.window_bytes > 65536 && b.session.window_bytes <= 1 << 18);
});

test("lost, doubled and reordered packets cost nothing but time", async () => {
  const draw = chance(9);
  const sides = await pair({ knows: false });
  const sent = Array.from({ length: 12 }, (_, i) => bytes_of(draw, 10 + 900 * i));
  const way = (packets) => packets.flatMap((packet) =>
    draw(9) === 0 ? [] : draw(9) === 0 ? [packet, packet] : [packet]).sort(() => draw(3) - 1);
  let [now, n_refused] = [0, 0];
  for (let i = 0; i < 60; i++, now += 0.5) {
    if (i % 5 === 0 && i < 60) sides[0].session.add(sent[i / 5], 1);
    for (const [from, to] of [sides, sides.slice().reverse()]) {
      from.told.push(...await from.session.on_time(now));
      for (const packet of way(await packets_of(from, now))) {
        try {
          to.told.push(...await to.session.receive(packet, now));
        } catch (error) {
          await refused(() => { throw error; });
          assert.ok(!error.breach);
          n_refused += 1;
        }
      }
    }
  }
  assert.ok(n_refused > 0);
  const arrived = new Set(messages(sides[1]));
  assert.ok(arrived.size >= 6, `${arrived.size} arrived`);
  for (const message of arrived) assert.ok(sent.some((one) => to_hex(one) === message));
});

test("keys that are worn are replaced, and what the old ones sealed still opens", async () => {
  const sides = await pair();
  const [a, b] = sides;
  a.session.add(new Uint8Array([1]), 1);
  await exchange(sides);
  const first = a.session.session_id;
  a.session.add(new Uint8Array([2]), 1);
  const late = (await packets_of(a, 10))[0];
  a.session.add(new Uint8Array([3]), 1);
  await exchange(sides, 1801);
  assert.notDeepEqual(a.session.session_id, first);
  assert.deepEqual(b.session.session_id, a.session.session_id);
  b.told.push(...await b.session.receive(late, 1850));
  assert.deepEqual(messages(b), ["01", "03", "02"]);
  await b.session.receive(late, 1900); // a hint, no error: keys that are no more
  assert.equal(b.session.replies.at(-1)[0], 17);
});

test("a peer that restarted is noticed, and what waited for it is dropped", async () => {
  const sides = await pair();
  const [a, b] = sides;
  a.session.add(new Uint8Array([1]), 1);
  await exchange(sides);
  const own = { ...b.own, instance: random_bytes(8) };
  const again = { own, session: new Session(own, a.own.identity.peer_id), told: [] };
  a.session.add(new Uint8Array(200000), 2);
  for (const packet of await packets_of(a, 1)) await again.session.receive(packet, 1);
  for (let now = 1; now < 9; now += 1) {
    for (const side of [a, again]) await side.session.on_time(now);
    await exchange([a, again], now);
  }
  const restarted = of(a, "established").filter((one) => one.restarted);
  assert.equal(restarted.length, 1);
  assert.equal(restarted[0].n_dropped, 1);
});

test("somebody else's record, key or network gets no session", async () => {
  const thief = await Identity.generate();
  const stolen = await sign_record(thief, TERMS);
  for (const changes of [{ network: random_bytes(32) }, { record: () => stolen }]) {
    const [a, b] = await pair({ knows: false, changes });
    a.session.add(new Uint8Array([1]), 1);
    let n_refused = 0;
    for (let i = 0; i < 6; i++) {
      for (const [from, to] of [[a, b], [b, a]]) {
        for (const packet of await packets_of(from, 0)) {
          await to.session.receive(packet, 0).catch((error) => {
            n_refused += 1;
            return refused(() => { throw error; });
          });
        }
      }
    }
    assert.ok(n_refused > 0 && !a.session.established && !b.session.established);
  }
});

test("nobody answers: it is given up, and what waited is dropped", async () => {
  const [{ session }] = await pair();
  session.add(new Uint8Array([1]), 1);
  const told = [];
  const kinds = [];
  for (let now = 0; now < 40; now += 0.25) {
    told.push(...await session.on_time(now));
    for (let next; (next = await session.next_packet(now));) kinds.push(next[1][0]);
    if (told.length) break;
  }
  assert.deepEqual(told, [{ type: "failed", n_dropped: 1 }]);
  assert.deepEqual(kinds, [1, 1, 1, 3, 3, 3]); // IK thrice, then XX
});

test("a suspect is proved anew before anything else is sent", async () => {
  const sides = await pair();
  const [a] = sides;
  a.session.add(new Uint8Array([1]), 1);
  await exchange(sides);
  a.session.suspect();
  a.session.add(new Uint8Array([2]), 1);
  assert.equal((await a.session.next_packet(5))[1][0], 1);
  assert.equal(await a.session.next_packet(5), null);
});

test("a farewell arrives, a probe is answered", async () => {
  const sides = await pair();
  const [a, b] = sides;
  assert.equal(await a.session.farewell(), null);
  await a.session.begin(0);
  await exchange(sides);
  b.told.push(...await b.session.receive(await a.session.farewell(), 0));
  assert.equal(of(b, "farewell").length, 1);
});

test("packets of chance are refused or hinted at, and change nothing", async () => {
  const draw = chance(10);
  const sides = await pair();
  const [a, b] = sides;
  a.session.add(new Uint8Array([1]), 1);
  await exchange(sides);
  const id = to_hex(b.session.session_id);
  const sample = (await a.session.farewell());
  for (let i = 0; i < 300; i++) {
    const raw = draw(2) ? bytes_of(draw, draw(80)) : sample.slice();
    if (raw.length) raw[draw(raw.length)] ^= 1 << draw(8);
    if (draw(2) && raw.length) raw[0] = [1, 2, 3, 4, 5, 16, 17][draw(7)];
    try {
      await b.session.receive(raw, 1);
    } catch (error) {
      await refused(() => { throw error; });
      assert.ok(!error.breach);
    }
  }
  await refused(() => b.session.receive(new Uint8Array(61441), 1));
  assert.equal(to_hex(b.session.session_id), id);
});

/** Play one side of Python's session: what it draws at random is what Python drew. */
async function play({ name: scenario, knows, steps }, who) {
  const other = who === "one" ? "other" : "one";
  let n = 0;
  const draw = (size) => drawn(`${scenario} ${who}`, ++n, size);
  const { generate } = curves.x25519;
  const system = crypto.getRandomValues;
  Object.defineProperty(crypto, "getRandomValues", {
    configurable: true, writable: true,
    value: (array) => { array.set(draw(array.length)); return array; },
  });
  curves.x25519.generate = () => pair_of("X25519", draw(32));
  try {
    const own = {
      identity: await identity_of(names[who].seeds), network: NETWORK, shelf: new Shelf(2 ** 28),
      instance: from_hex(names[who].instance), record: () => from_hex(names[who].record),
    };
    const record = knows ? await parse_record(from_hex(names[other].record)) : null;
    const session = new Session(own, from_hex(names[other].peer_id), record);
    return await follow(session, who, steps);
  } finally {
    curves.x25519.generate = generate;
    delete crypto.getRandomValues;
    assert.equal(crypto.getRandomValues, system);
  }
}

async function follow(session, who, steps) {
  const delivered = [];
  let now = 0;
  for (const [what, ...step] of steps) {
    if (what === "now") [now] = step;
    else if (what === "add" && step[0] === who) {
      session.add(new Uint8Array(step[2]).fill(step[3]), step[1]);
    } else if (what === "packet" && step[0] === who) {
      const packet = session.replies.shift() ?? (await session.next_packet(now))?.[1];
      assert.equal(packet && to_hex(packet), step[1]);
    } else if (what === "packet") {
      for (const told of await session.receive(from_hex(step[1]), now)) {
        const { type, in_class, message } = told;
        if (type === "delivered") delivered.push([in_class, message.length, message[0]]);
      }
    }
  }
  return delivered;
}

for (const scenario of sessions) {
  for (const who of ["one", "other"]) {
    test(`Python's session "${scenario.name}", played by ${who}: every byte`, async () => {
      const wanted = scenario.steps.filter(([what, side]) => what === "add" && side !== who);
      assert.deepEqual(await play(scenario, who), wanted.map(([, , ...message]) => message));
    });
  }
}

test("frames that break a rule are the peer's own doing", async () => {
  const frames = ["", "08", "ff", "00010000000000000000", "0003000000000000000001", "0001",
    "020100000000000000", "02010000000000000000aa", "0303" + "00".repeat(8), "05" + "00".repeat(7),
    "06" + "00".repeat(9), "0301" + "ff".repeat(8), "0001" + "0000000000010000" + "01",
    "01" + "00".repeat(21), "0100" + "00".repeat(12) + "0000000100000001" + "aa"];
  for (const frame of frames) {
    const sides = await pair();
    const [a, b] = sides;
    let channel = null;
    const of_channel = Channel.of;
    Channel.of = async (...args) => (channel = await of_channel.apply(Channel, args));
    try {
      a.session.add(new Uint8Array([1]), 1);
      await exchange(sides);
    } finally {
      Channel.of = of_channel;
    }
    const packet = await channel.seal(from_hex(frame)); // of the side that made its keys last
    const taker = channel.initiator ? b : a;
    const breach = { name: "ProtocolError", breach: true };
    await assert.rejects(taker.session.receive(packet, 0), breach, frame);
  }
});
