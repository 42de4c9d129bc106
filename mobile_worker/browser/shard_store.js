/**
 * Shards by their SHA-256, in a folder of files within a budget of bytes.
 *
 * A file is named by its digest and grows from its first byte on: what is short goes on
 * where it ends. It is believed once its hash is right, after it came and each time it
 * is read; what is wrong is removed. Room is made by removing what was used longest ago
 * and is not kept. A folder has list(is_ours) -> [[name, bytes, last written]],
 * remove(name) and open(name), a sync access handle as OPFS has. Reference:
 * shards/store.py.
 */
import { to_hex } from "./bytes.js";
import { digest } from "./crypto.js";
import { Refused, must } from "./formats.js";

const TIMEOUT_MS = 120_000; // of one answer: the next goes on where it ended

/** A folder of this page's own file system; for dedicated workers. */
export async function opfs_folder(name) {
  const root = await navigator.storage.getDirectory();
  const folder = await root.getDirectoryHandle(name, { create: true });
  return {
    async list(is_ours) {
      const found = [];
      for await (const [name, handle] of folder.entries()) {
        if (!is_ours(name)) continue;
        const { size, lastModified } = await handle.getFile();
        found.push([name, size, lastModified]);
      }
      return found;
    },
    open: async (name) =>
      (await folder.getFileHandle(name, { create: true })).createSyncAccessHandle(),
    remove: (name) => folder.removeEntry(name),
  };
}

/**
 * A relay's shard from its byte `first` on, piece by piece. SourceRefused; SourceBroke:
 * to be asked again, in `retry_s` at the earliest.
 */
export async function* from_relay(name, first, n_bytes) {
  const broke = (why, retry_s = 0) =>
    Object.assign(new Refused("SourceBroke", `the relay ${why}`), { retry_s });
  const headers = { Range: `bytes=${first}-${n_bytes - 1}` };
  let reader;
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const answer = await fetch(`/blob/${name}`, { headers, signal, cache: "no-store" });
    const { status, body } = answer;
    const retry_s = Math.min(60, answer.headers.get("retry-after")) || 0;
    if (status > 499) throw broke(`answers ${status}`, retry_s);
    const fits = status === 206 || (status === 200 && !first);
    must(fits, "SourceRefused", `the relay answers ${status}`);
    reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } catch (error) {
    throw error instanceof Refused ? error : broke(`broke off: ${error.message}`);
  } finally {
    reader?.cancel().catch(() => {});
  }
}

export class ShardStore {
  #folder; #max_bytes;
  #sizes = new Map(); // used longest ago first; what is on its way counts in full
  #coming = new Set();
  #kept = [];

  /** A store of those files in a folder that are `mine(name)`. */
  static async open(folder, max_bytes, mine = () => true) {
    const store = new ShardStore();
    store.#folder = folder;
    store.#max_bytes = max_bytes;
    const is_ours = (name) => /^[0-9a-f]{64}$/.test(name) && mine(name);
    const files = (await folder.list(is_ours)).sort((a, b) => a[2] - b[2]);
    for (const [name, n_bytes] of files) store.#sizes.set(name, n_bytes);
    return store;
  }

  get used_bytes() {
    return [...this.#sizes.values()].reduce((sum, n_bytes) => sum + n_bytes, 0);
  }

  /** Name all shards that must not be removed to make room: the leased ones. */
  keep(names) {
    this.#kept = names;
  }

  /** Read a shard into as many bytes as it has; ShardMissing, ShardCorrupt. */
  async read(name, target) {
    const is_here = this.#sizes.get(name) === target.length && !this.#coming.has(name);
    must(is_here, "ShardMissing", `shard ${name} is not here`);
    await this.#use(name, async (file) => {
      file.read(target, { at: 0 });
      file.write(target.subarray(0, 1), { at: 0 }); // its time says when it was used
      await this.#check(name, target, file);
    });
  }

  /**
   * Bring a shard in from `source(name, first, n_bytes)`, pieces of its bytes from
   * `first` on; `came` is told of each. What has come stays for the next try. StoreFull,
   * StoreUnusable, ShardCorrupt, SourceRefused, SourceBroke.
   */
  async bring(name, n_bytes, source, came = () => {}) {
    must(!this.#coming.has(name), "ShardError", `shard ${name} is on its way`);
    this.#coming.add(name);
    this.#sizes.set(name, n_bytes);
    await this.#use(name, async (file) => {
      await this.#make_room();
      let at = file.getSize();
      if (at > n_bytes) file.truncate((at = 0));
      for await (const piece of at < n_bytes ? source(name, at, n_bytes) : []) {
        must(piece.length <= n_bytes - at, "SourceRefused", "more came than was asked");
        must(file.write(piece, { at }) === piece.length, "StoreFull", "no space left");
        at += piece.length;
        came(piece.length);
      }
      must(at === n_bytes, "SourceBroke", `${n_bytes - at} bytes did not come`);
      const body = new Uint8Array(n_bytes);
      file.read(body, { at: 0 });
      await this.#check(name, body, file);
    });
  }

  /** Remove a shard. */
  async remove(name) {
    this.#sizes.delete(name);
    await this.#folder.remove(name);
  }

  async #check(name, body, file) {
    if (to_hex(await digest(body)) === name) return;
    file.truncate(0);
    throw new Refused("ShardCorrupt", `shard ${name} came or was kept wrongly`);
  }

  /** Do something with a file; count and remember it afterwards as it then is. */
  async #use(name, action) {
    let file;
    try {
      file = await this.#folder.open(name);
      await action(file);
      file.flush();
    } catch (error) {
      if (error instanceof Refused) throw error;
      const kind = error.name === "QuotaExceededError" ? "StoreFull" : "StoreUnusable";
      throw new Refused(kind, `cannot store shards: ${error.message}`);
    } finally {
      const n_bytes = file?.getSize();
      file?.close();
      this.#coming.delete(name);
      this.#sizes.delete(name);
      if (n_bytes) this.#sizes.set(name, n_bytes);
      else if (file) await this.#folder.remove(name);
    }
  }

  async #make_room() {
    for (const name of [...this.#sizes.keys()]) {
      if (this.used_bytes <= this.#max_bytes) return;
      if (![...this.#kept, ...this.#coming].includes(name)) await this.remove(name);
    }
    const fits = this.used_bytes <= this.#max_bytes;
    must(fits, "StoreFull", `all shards leased are more than ${this.#max_bytes} bytes`);
  }
}
