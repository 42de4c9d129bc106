/**
 * The arithmetic's wasm modules, and an instance with its memory laid out:
 *
 *     steps | values of the running call | slots, each for one expert
 *
 * The memory is the module's own, unshared, and grown once, to its cap: views stay good
 * and no engine copies it. What is freed is written over. Reference: arithmetic/wasm,
 * docs/reference/wasm-kernels.md.
 */
import { Refused, must } from "./formats.js";

export const [PREPARE, MULTIPLY, ADD_BIAS, ACTIVATE, CODE, CHECK] = [1, 2, 3, 4, 5, 6];
const STATUS = [, "KernelUnavailable", "FormatUnsupported", "ShapeMismatch",
  "CodeRefused", "NonFinite"];
const PAGE = 1 << 16;

const aligned = (address) => Math.ceil(address / 64) * 64;
const unavailable = (why) => new Refused("KernelUnavailable", why);

/**
 * The module that this engine takes, {flavour, module}: relaxed if it can, else plain,
 * or the one forced. `load(flavour)` resolves to its bytes. KernelUnavailable.
 */
export async function choose_module(load, forced) {
  for (const flavour of forced ? [forced] : ["relaxed", "plain"]) {
    const raw = await load(flavour);
    if (WebAssembly.validate(raw)) {
      return { flavour, module: await WebAssembly.compile(raw) };
    }
  }
  throw unavailable("no WebAssembly SIMD here: update this browser");
}

/** An instance of `n_bytes` in all, with slots of `slot_bytes`; KernelUnavailable. */
export class Workspace {
  #run; #steps; #values; #slots; #next; #n;
  #names = []; // of what is in each slot

  constructor(module, n_bytes, slot_bytes, values_bytes = 8 << 20) {
    try {
      const { memory, run, __heap_base } = new WebAssembly.Instance(module).exports;
      memory.grow(Math.floor((n_bytes - memory.buffer.byteLength) / PAGE));
      this.bytes = new Uint8Array(memory.buffer);
      this.floats = new Float32Array(memory.buffer);
      this.words = new Uint32Array(memory.buffer);
      this.#run = run;
      this.#steps = aligned(__heap_base.value);
    } catch (error) {
      throw unavailable(`no wasm memory of ${n_bytes} bytes: ${error.message}`);
    }
    this.values_bytes = values_bytes;
    this.slot_bytes = aligned(slot_bytes);
    this.#values = this.#steps + 1280; // 32 steps
    this.#slots = this.#values + aligned(values_bytes);
    const left = this.bytes.length - this.#slots;
    this.n_slots = Math.floor(left / this.slot_bytes);
    if (left < 0) throw unavailable(`${n_bytes} bytes are too few to compute in`);
  }

  /** The address of a free slot for so many bytes; MemoryExhausted. */
  take(name, n_bytes) {
    let i = 0;
    while (this.#names[i] !== undefined) i++;
    const fits = i < this.n_slots && n_bytes <= this.slot_bytes;
    must(fits, "MemoryExhausted", `no room in memory for ${n_bytes} bytes`);
    this.#names[i] = name;
    return this.#slots + i * this.slot_bytes;
  }

  free(name) {
    delete this.#names[this.#names.indexOf(name)];
  }

  /** Begin a program: no steps, at most 32 to come, and no values. */
  begin() {
    this.#next = this.#values;
    this.#n = 0;
  }

  /** The address of so many free bytes for values; ShapeMismatch. */
  place(n_bytes) {
    const at = this.#next;
    this.#next = aligned(at + n_bytes);
    must(this.#next <= this.#slots, "ShapeMismatch", "rows too wide for the kernel");
    return at;
  }

  step(...words) {
    this.words.set(words, this.#steps / 4 + 10 * this.#n++);
  }

  /** Do the steps; what the first refusal among them says is thrown. */
  run() {
    let status;
    try {
      status = this.#run(this.#steps, this.#n);
    } catch (error) {
      throw unavailable(`the kernel trapped: ${error.message}`);
    }
    must(!status, STATUS[status], `the kernel refuses: ${STATUS[status]}`);
  }
}
