/** What the tests of the compute modules share: vectors, modules, folders in memory. */
import { readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";

import { bytes_of } from "../../../mobile_worker/browser/expert.js";
import { FORMATS } from "../../../mobile_worker/browser/formats.js";
import { choose_module, Workspace } from "../../../mobile_worker/browser/kernel.js";

const ROOT = new URL("../../../", import.meta.url);

/** The bytes of a file of this repository. */
export const file_of = (path) => new Uint8Array(readFileSync(new URL(path, ROOT)));

/** A file of tests/vectors. */
export const vectors = (name) =>
  JSON.parse(readFileSync(new URL(`tests/vectors/${name}`, ROOT), "utf8"));

/** A module's bytes, as `choose_module` asks for them. */
export const load = async (flavour) =>
  file_of(`mobile_worker/arithmetic/wasm/kernel-${flavour}.wasm`);

/** Both modules; relaxed SIMD is an option of node 20 and there without one later on. */
export async function modules() {
  if (!WebAssembly.validate(await load("relaxed"))) {
    setFlagsFromString("--experimental-wasm-relaxed-simd");
  }
  return [await choose_module(load, "plain"), await choose_module(load, "relaxed")];
}

export const hex = (array) => Buffer.from(bytes_of(array)).toString("hex");

export const bytes = (text) => Uint8Array.from(Buffer.from(text, "hex"));

export const floats = (text) => new Float32Array(bytes(text).buffer);

/** The number of a format's name. */
export const number_of = (name) =>
  [...FORMATS].find(([, [known]]) => known === name)[0];

/** A workspace of 4 MiB with slots of 128 KiB. */
export const workspace = (module) => new Workspace(module, 4 << 20, 1 << 17, 1 << 20);

/** A folder of files in memory; `room`: bytes that it takes in all. */
export class MemoryFolder {
  files = new Map(); // name -> bytes, what was written last at the end
  n_open = 0;

  constructor(room = Infinity) {
    this.room = room;
  }

  async list(is_ours) {
    const all = [...this.files].map(([name, raw], i) => [name, raw.length, i]);
    return all.filter(([name]) => is_ours(name)).reverse();
  }

  async open(name) {
    const folder = this;
    const raw = () => this.files.get(name);
    const put = (changed) => {
      this.files.delete(name);
      this.files.set(name, changed);
    };
    if (!raw()) put(new Uint8Array());
    this.n_open++;
    return {
      getSize: () => raw().length,
      read(target, { at }) {
        const part = raw().subarray(at, at + target.length);
        target.set(part);
        return part.length;
      },
      write(part, { at }) {
        const grown = new Uint8Array(Math.max(raw().length, at + part.length));
        const all = [...folder.files.values()].reduce((sum, each) => sum + each.length, 0);
        if (all + grown.length - raw().length > folder.room) {
          throw new DOMException("no space", "QuotaExceededError");
        }
        grown.set(raw());
        grown.set(part, at);
        put(grown);
        return part.length;
      },
      truncate: (n) => put(raw().slice(0, n)),
      flush() {},
      close() {
        folder.n_open--;
      },
    };
  }

  async remove(name) {
    this.files.delete(name);
  }
}
