/**
 * The dedicated worker that computes: an instance, its experts, its part of the shards.
 *
 * A message {id, ask, ...} is answered by {id, ...} or {id, kind, why}; {id, came} tells
 * of bytes on the way. After KernelUnavailable the worker is to be replaced.
 *
 *     start    module, n_bytes, slot_bytes, store_bytes, index, n_workers, rate_ms
 *              -> self_test, rate_macs_s, n_slots
 *     load     name, n_bytes, layout          a shard into a slot
 *     keep     names                          of those leased; others leave their slots
 *     compute  a dispatch, its calls {name, rows} -> see `compute`
 *     canary   name, expert, seed, n_rows, n_embd, profile -> hash
 */
import { canary_rows } from "./canary_rows.js";
import { Expert, compute, out_hash } from "./expert.js";
import { must } from "./formats.js";
import { Workspace } from "./kernel.js";
import { measure_rate, self_test } from "./self_test.js";
import { shard_parts } from "./shard_file.js";
import { ShardStore, from_relay, opfs_folder } from "./shard_store.js";

/** Which of n workers has the shard of this name. */
export const worker_of = (name, n) => parseInt(name.slice(0, 8), 16) % n;

export class ComputeWorker {
  #tell; #folder; #source; #space; #store;
  #experts = new Map(); // name -> Expert, null while it is loaded

  /** `tell(message, transfer)` speaks to the page. */
  constructor(tell, folder = () => opfs_folder("shards"), source = from_relay) {
    this.#tell = tell;
    this.#folder = folder;
    this.#source = source;
  }

  /** Do what a message asks for, and answer it. */
  async asked({ id, ask, ...what }) {
    try {
      const answer = await this[ask](what, id);
      this.#tell({ id, ...answer }, answer.results ? [answer.results.buffer] : []);
    } catch ({ kind = "Fault", message, retry_s = 0 }) {
      this.#tell({ id, kind, why: message, retry_s }, []);
    }
  }

  async start({ module, n_bytes, slot_bytes, store_bytes, index, n_workers, rate_ms }) {
    const digest = self_test(module);
    const mine = (name) => worker_of(name, n_workers) === index;
    this.#space = new Workspace(module, n_bytes, slot_bytes);
    this.#store = await ShardStore.open(await this.#folder(), store_bytes, mine);
    const { n_slots } = this.#space;
    return { self_test: digest, rate_macs_s: measure_rate(module, rate_ms), n_slots };
  }

  async load({ name, n_bytes, layout }, id) {
    if (this.#experts.has(name)) return {};
    const wanted = shard_parts(layout).n_bytes;
    must(wanted === n_bytes, "ShardMisfit", `a shard of ${n_bytes} bytes, not ${wanted}`);
    const at = this.#space.take(name, n_bytes);
    const target = this.#space.bytes.subarray(at, at + n_bytes);
    this.#experts.set(name, null);
    try {
      await this.#store.read(name, target).catch(async () => {
        const came = (n) => this.#tell({ id, came: n }, []);
        await this.#store.bring(name, n_bytes, this.#source, came);
        await this.#store.read(name, target);
      });
    } catch (error) {
      this.#space.free(name);
      this.#experts.delete(name);
      throw error;
    }
    this.#experts.set(name, new Expert(this.#space, layout, at));
    return {};
  }

  keep({ names }) {
    this.#store.keep(names);
    for (const [name, expert] of this.#experts) {
      if (!expert || names.includes(name)) continue;
      this.#experts.delete(name);
      this.#space.free(name);
    }
    return {};
  }

  compute({ dispatch }) {
    return compute(dispatch, dispatch.calls.map(({ name }) => this.#held(name)));
  }

  canary({ name, expert, seed, n_rows, n_embd, profile }) {
    const rows = canary_rows(seed, expert, n_rows, n_embd);
    const call = { rows: [...Array(n_rows).keys()] };
    const dispatch = { ...rows, profile, calls: [call] };
    const { error, reason, results } = compute(dispatch, [this.#held(name)]);
    must(error < 2, "ArithmeticRefused", reason);
    return { hash: out_hash(results) };
  }

  #held(name) {
    const expert = this.#experts.get(name);
    must(expert, "NotHeld", `expert ${name} is not held here`);
    return expert;
  }
}

if (typeof WorkerGlobalScope !== "undefined") {
  const worker = new ComputeWorker((message, transfer) => postMessage(message, transfer));
  onmessage = ({ data }) => worker.asked(data);
}
