import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { Refused } from "../../../mobile_worker/browser/formats.js";
import { ShardStore, from_relay } from "../../../mobile_worker/browser/shard_store.js";
import { MemoryFolder } from "./compute_support.mjs";

const of_kind = (kind) => (error) => error.kind === kind && !error.message.includes("\n");

/** A shard of n bytes, [name, bytes]. */
function shard(n, salt = 0) {
  const raw = Uint8Array.from({ length: n }, (_, i) => (i * 31 + salt) & 255);
  return [createHash("sha256").update(raw).digest("hex"), raw];
}

/** A source that gives pieces of bytes and notes from where it was asked. */
function source_of(raw, { piece = 100, ends_at = raw.length, firsts = [] } = {}) {
  return async function* (name, first, n_bytes) {
    firsts.push(first);
    for (let at = first; at < ends_at; at += piece) {
      yield raw.subarray(at, Math.min(at + piece, ends_at));
    }
    if (ends_at < n_bytes) throw new Refused("SourceBroke", "cut off");
  };
}

const never = () => assert.fail("nothing was to be fetched");

async function read(store, name, n) {
  const target = new Uint8Array(n);
  await store.read(name, target);
  return target;
}

test("a shard comes, is read, and is there after a restart", async () => {
  const folder = new MemoryFolder();
  const store = await ShardStore.open(folder, 10_000);
  const [name, raw] = shard(1000);
  const told = [];
  await assert.rejects(read(store, name, 1000), of_kind("ShardMissing"));
  await store.bring(name, 1000, source_of(raw, { piece: 300 }), (n) => told.push(n));
  assert.deepEqual(told, [300, 300, 300, 100]);
  assert.deepEqual(await read(store, name, 1000), raw);
  assert.equal(store.used_bytes, 1000);
  const again = await ShardStore.open(folder, 10_000);
  assert.deepEqual(await read(again, name, 1000), raw);
  await again.bring(name, 1000, never);
  assert.equal(folder.n_open, 0);
});

test("what broke off goes on where it ended, after a restart as well", async () => {
  const folder = new MemoryFolder();
  const [name, raw] = shard(1000);
  const firsts = [];
  for (const ends_at of [250, 700]) {
    const store = await ShardStore.open(folder, 10_000);
    const source = source_of(raw, { ends_at, firsts });
    await assert.rejects(store.bring(name, 1000, source), of_kind("SourceBroke"));
    assert.equal(store.used_bytes, ends_at);
    await assert.rejects(read(store, name, 1000), of_kind("ShardMissing"));
  }
  const store = await ShardStore.open(folder, 10_000);
  await store.bring(name, 1000, source_of(raw, { firsts }));
  assert.deepEqual(firsts, [0, 250, 700]);
  assert.deepEqual(await read(store, name, 1000), raw);
  assert.equal(folder.n_open, 0);
});

test("a source that ends early is asked for the rest", async () => {
  const store = await ShardStore.open(new MemoryFolder(), 10_000);
  const [name, raw] = shard(500);
  const short = async function* () { yield raw.subarray(0, 200); };
  await assert.rejects(store.bring(name, 500, short), of_kind("SourceBroke"));
  const firsts = [];
  await store.bring(name, 500, source_of(raw, { firsts }));
  assert.deepEqual(firsts, [200]);
});

test("bytes of another hash are removed at once", async () => {
  const folder = new MemoryFolder();
  const store = await ShardStore.open(folder, 10_000);
  const [name, raw] = shard(1000);
  const [, other] = shard(1000, 1);
  await assert.rejects(store.bring(name, 1000, source_of(other)), of_kind("ShardCorrupt"));
  assert.equal(folder.files.size, 0);
  assert.equal(store.used_bytes, 0);
  await store.bring(name, 1000, source_of(raw));
  assert.deepEqual(await read(store, name, 1000), raw);
});

test("a shard that was changed on disk is found when it is read, and removed", async () => {
  const folder = new MemoryFolder();
  const store = await ShardStore.open(folder, 10_000);
  const [name, raw] = shard(1000);
  await store.bring(name, 1000, source_of(raw));
  folder.files.get(name)[999] ^= 1;
  await assert.rejects(read(store, name, 1000), of_kind("ShardCorrupt"));
  assert.equal(folder.files.size, 0);
  await assert.rejects(read(store, name, 1000), of_kind("ShardMissing"));
});

test("more than was asked for, and a file that is too long", async () => {
  const folder = new MemoryFolder();
  const store = await ShardStore.open(folder, 10_000);
  const [name, raw] = shard(300);
  const endless = async function* () { for (;;) yield raw; };
  await assert.rejects(store.bring(name, 300, endless), of_kind("SourceRefused"));
  folder.files.set(name, new Uint8Array(4000));
  const again = await ShardStore.open(folder, 10_000);
  const firsts = [];
  await assert.rejects(read(again, name, 300), of_kind("ShardMissing"));
  await again.bring(name, 300, source_of(raw, { firsts }));
  assert.deepEqual(firsts, [0]);
});

test("room is made by what was used longest ago and is not kept", async () => {
  const folder = new MemoryFolder();
  const store = await ShardStore.open(folder, 3000);
  const all = [0, 1, 2, 3, 4].map((salt) => shard(1000, salt));
  const bring = async (i) => store.bring(all[i][0], 1000, source_of(all[i][1]));
  for (const i of [0, 1, 2]) await bring(i);
  await read(store, all[0][0], 1000);
  await bring(3);
  const held = () => all.map(([name], i) => (folder.files.has(name) ? i : "")).join("");
  assert.equal(held(), "023");
  store.keep([all[2][0], all[3][0]]);
  await bring(4);
  assert.equal(held(), "234");
  store.keep([2, 3, 4].map((i) => all[i][0]));
  await assert.rejects(bring(0), of_kind("StoreFull"));
  assert.equal(held(), "234");
  assert.equal(store.used_bytes, 3000);
  const again = await ShardStore.open(folder, 3000);
  await read(again, all[2][0], 1000);
  const later = await ShardStore.open(folder, 3000);
  await later.bring(all[0][0], 1000, source_of(all[0][1]));
  assert.equal(held(), "024", "the order of use outlives a restart");
});

test("two on their way at once share the budget, one is asked for once", async () => {
  const store = await ShardStore.open(new MemoryFolder(), 1500);
  const [[one, raw], [other]] = [shard(1000), shard(1000, 1)];
  let go_on;
  const slow = async function* () {
    await new Promise((resolve) => { go_on = resolve; });
    yield raw;
  };
  const first = store.bring(one, 1000, slow);
  await new Promise(setImmediate);
  await assert.rejects(store.bring(other, 1000, never), of_kind("StoreFull"));
  await assert.rejects(store.bring(one, 1000, never), of_kind("ShardError"));
  await assert.rejects(read(store, one, 1000), of_kind("ShardMissing"));
  go_on();
  await first;
  assert.deepEqual(await read(store, one, 1000), raw);
});

test("a full disk and a folder that cannot be used are one line each", async () => {
  const [name, raw] = shard(1000);
  const full = await ShardStore.open(new MemoryFolder(500), 10_000);
  await assert.rejects(full.bring(name, 1000, source_of(raw)), of_kind("StoreFull"));
  const folder = new MemoryFolder();
  const store = await ShardStore.open(folder, 10_000);
  folder.open = async () => { throw new DOMException("locked", "InvalidStateError"); };
  await assert.rejects(store.bring(name, 1000, never), of_kind("StoreUnusable"));
  assert.equal(store.used_bytes, 0);
});

test("other files and others' shards are left alone", async () => {
  const folder = new MemoryFolder();
  const [[mine, raw], [theirs]] = [shard(100), shard(100, 1)];
  const names = [mine, theirs, "notes.txt", `${mine}x`, mine.toUpperCase(), "../x"];
  for (const name of names) folder.files.set(name, raw);
  const store = await ShardStore.open(folder, 150, (name) => name !== theirs);
  assert.equal(store.used_bytes, 100);
  const [other, more] = shard(120, 2);
  await store.bring(other, 120, source_of(more));
  assert.deepEqual([...folder.files.keys()], [...names.slice(1), other]);
});

test("a relay is asked for what is missing, and its answers are judged", async (t) => {
  const asked = [];
  const answers = [];
  const [name, raw] = shard(1000);
  t.mock.method(globalThis, "fetch", async (url, { headers, cache }) => {
    asked.push([url, headers.Range, cache]);
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  });
  const give = (body, status, headers) => answers.push(new Response(body, { status, headers }));
  const collect = async (first) => {
    const pieces = [];
    for await (const piece of from_relay(name, first, 1000)) pieces.push(...piece);
    return Uint8Array.from(pieces);
  };
  give(raw.subarray(400), 206);
  assert.deepEqual(await collect(400), raw.subarray(400));
  assert.deepEqual(asked, [[`/blob/${name}`, "bytes=400-999", "no-store"]]);
  give(raw, 200);
  assert.deepEqual(await collect(0), raw);
  give(raw, 200);
  await assert.rejects(collect(1), of_kind("SourceRefused"));
  for (const status of [404, 416, 302]) {
    answers.push({ status, headers: new Headers(), body: null });
    await assert.rejects(collect(0), of_kind("SourceRefused"));
  }
  for (const [told, retry_s] of [["7", 7], ["99999", 60], ["soon", 0], [undefined, 0]]) {
    give(null, 503, told && { "retry-after": told });
    await assert.rejects(collect(0), (error) => {
      assert.equal(error.retry_s, retry_s);
      return of_kind("SourceBroke")(error);
    });
  }
  answers.push(new TypeError("failed to fetch"));
  await assert.rejects(collect(0), of_kind("SourceBroke"));
});

test("a relay's answer is cancelled when enough has come", async (t) => {
  const [name, raw] = shard(300);
  let is_cancelled = false;
  const endless = new ReadableStream({
    pull: (controller) => controller.enqueue(raw),
    cancel: () => { is_cancelled = true; },
  });
  t.mock.method(globalThis, "fetch", async () => new Response(endless));
  const store = await ShardStore.open(new MemoryFolder(), 10_000);
  await assert.rejects(store.bring(name, 300, from_relay), of_kind("SourceRefused"));
  await new Promise(setImmediate);
  assert.ok(is_cancelled);
});
