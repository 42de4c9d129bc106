import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import test from "node:test";
import { equal, from_hex, to_hex, utf8 } from "../../../mobile_worker/browser/bytes.js";
import { Identity, aead, check_peer_id, choose_curves, curves, digest, exchange, hmac,
  random_bytes, sha256, verify } from "../../../mobile_worker/browser/crypto.js";
import { bytes_of, chance, identity_of, pair_of, plain, refused, shared_test, vectors }
  from "./support.mjs";

const { peer_ids, names } = vectors("protocol/golden.json");

test("SHA-256 and HMAC are node's", async () => {
  const draw = chance(4);
  for (const n of [0, 1, 9, 54, 55, 56, 57, 63, 64, 65, 119, 120, 128, 5000]) {
    const [raw, key] = [bytes_of(draw, n), bytes_of(draw, 32)];
    assert.equal(to_hex(sha256(raw.subarray(0, 9), raw.subarray(9))),
      createHash("sha256").update(raw).digest("hex"));
    assert.deepEqual(await digest(raw), sha256(raw));
    assert.equal(to_hex(hmac(key, raw)), createHmac("sha256", key).update(raw).digest("hex"));
  }
});

test("AES-GCM opens what it sealed and nothing else", async () => {
  const [key, nonce, head] = [random_bytes(32), new Uint8Array(12), utf8("head")];
  const cipher = await aead(key);
  const sealed = await cipher.seal(nonce, utf8("text"), head);
  assert.equal(sealed.length, 4 + 16);
  assert.ok(equal(await cipher.open(nonce, sealed, head), utf8("text")));
  await refused(() => cipher.open(nonce, sealed, utf8("Head")));
  await refused(() => cipher.open(nonce, sealed.map((byte, i) => byte ^ (i === 3)), head));
  await refused(() => cipher.open(nonce, sealed.subarray(0, 15), head));
  await refused(() => cipher.open(random_bytes(12), sealed, head));
});

test("peer ids are taken and refused as in Python", async () => {
  for (const { raw, good } of peer_ids) {
    const id = from_hex(raw);
    if (good) assert.equal(check_peer_id(id), id);
    else await refused(() => check_peer_id(id));
  }
  assert.ok(peer_ids.some(({ good }) => good) && peer_ids.some(({ good }) => !good));
});

test("an identity of known secrets is Python's, and signs", async () => {
  for (const { seeds, peer_id, static_key } of Object.values(names)) {
    const own = await identity_of(seeds);
    assert.deepEqual(plain([own.peer_id, own.fixed.public]), [peer_id, static_key]);
    const signature = await own.sign("a domain\0", utf8("text"));
    assert.ok(await verify(own.peer_id, "a domain\0", utf8("text"), signature));
    assert.ok(!await verify(own.peer_id, "b domain\0", utf8("text"), signature));
    assert.ok(!await verify(own.peer_id, "a domain\0", utf8("text"), signature.subarray(1)));
  }
});

test("a new identity signs and agrees, and its secrets cannot be read", async () => {
  const [one, other] = [await Identity.generate(), await Identity.generate()];
  assert.ok(!one.signing.private.extractable && !one.fixed.private.extractable);
  assert.ok(await verify(one.peer_id, "", utf8("x"), await one.sign("", utf8("x"))));
  assert.ok(equal(await exchange(one.fixed.private, other.fixed.public),
    await exchange(other.fixed.private, one.fixed.public)));
});

test("no key of small order signs or agrees", async () => {
  const { fixed } = await identity_of(names.one.seeds);
  const points = ["00".repeat(32), "01" + "00".repeat(31), "ec" + "ff".repeat(30) + "7f",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"];
  for (const point of points) await refused(() => exchange(fixed.private, from_hex(point)));
  const nobody = from_hex("01" + "00".repeat(31)); // verifies R = S B of any text
  assert.ok(!await verify(nobody, "", utf8("x"), from_hex("01" + "00".repeat(63))));
  await refused(() => exchange(fixed.private, new Uint8Array(31)));
});

test("a curve that WebCrypto lacks is taken from elsewhere", async () => {
  const own = { ...curves };
  assert.deepEqual(await choose_curves(() => assert.fail("nothing is lacking")), []);
  try {
    curves.ed25519 = { generate: async () => { throw new Error("NotSupportedError"); } };
    assert.deepEqual(await choose_curves(async () => ({ ed25519: own.ed25519 })), ["ed25519"]);
    assert.equal(curves.ed25519, own.ed25519);
  } finally {
    Object.assign(curves, own);
  }
});

shared_test("Ed25519 as Wycheproof has it", "vectors/wycheproof/ed25519_test.json", async (found) => {
  for (const group of found.testGroups) {
    const key = from_hex(group.publicKey.pk);
    for (const { msg, sig, result, tcId } of group.tests) {
      assert.equal(await verify(key, "", from_hex(msg), from_hex(sig)), result === "valid", tcId);
    }
  }
});

shared_test("X25519 as Wycheproof has it", "vectors/wycheproof/x25519_test.json", async (found) => {
  for (const { tests } of found.testGroups) {
    for (const { public: other, private: seed, shared, tcId } of tests) {
      const key = (await pair_of("X25519", from_hex(seed))).private;
      if (/^0*$/.test(shared)) await refused(() => exchange(key, from_hex(other)));
      else assert.equal(to_hex(await exchange(key, from_hex(other))), shared, tcId);
    }
  }
});
