/**
 * One expert in a slot of a workspace, and dispatches computed by such experts.
 *
 * Rows are as a DISPATCH has them: {n_rows, n_embd, coded, floats}, coded {codes Int8Array
 * [n_rows, n_embd], scales Float32Array [n_rows, n_embd / 32]}, floats Float32Array
 * [n_rows, n_embd], null what is not there. Results are coded by a profile: 0 R32, 1 R16,
 * 2 R8. Reference: arithmetic/wasm/programs.py, serve/compute.py, servings/hashes.py.
 */
import { concat } from "./bytes.js";
import { sha256 } from "./crypto.js";
import { Refused, is_integer, must } from "./formats.js";
import { ACTIVATE, ADD_BIAS, CHECK, CODE, MULTIPLY, PREPARE } from "./kernel.js";
import { shard_parts } from "./shard_file.js";

const Q = [0, 32767, 127];
const MAX_ROWS = 64; // that share one pass over the weights

/** The bytes of n values coded by a profile. */
export const coded_bytes = (profile, n) => (n / 32) * [128, 68, 36][profile];

export const bytes_of = (all) =>
  new Uint8Array(all.buffer, all.byteOffset, all.byteLength);

const row_of = (all, row, width) => all.subarray(row * width, (row + 1) * width);

export class Expert {
  #space; #layout; #numbers; #matrices; #max_rows;

  /** The expert whose shard lies at the address `at`. */
  constructor(space, layout, at) {
    const { n_embd, n_ff, alpha, limit } = layout;
    this.#space = space;
    this.#layout = layout;
    this.#numbers = new Uint32Array(Float32Array.of(alpha, limit).buffer);
    this.#matrices = shard_parts(layout, at).matrices;
    this.row_macs = 3 * n_embd * n_ff;
    const row_bytes = 17 * n_embd + 13 * n_ff; // x, y; g, u, h: floats, coded and ready
    const most = Math.floor((space.values_bytes - 4096) / row_bytes);
    this.#max_rows = Math.max(1, Math.min(MAX_ROWS, most));
  }

  /** The coded results of the rows picked, in order; NonFinite, ShapeMismatch. */
  compute_call(rows, picked, profile) {
    const { n_embd } = this.#layout;
    const has = this.#matrices.slice(0, 2).every(({ format }) =>
      is_integer(format) ? rows.coded : rows.floats);
    const fits = has && rows.n_embd === n_embd;
    must(fits, "ShapeMismatch", `no rows of ${n_embd} values as the expert needs them`);
    const parts = [];
    for (let i = 0; i < picked.length; i += this.#max_rows) {
      parts.push(this.#run(rows, picked.slice(i, i + this.#max_rows), profile));
    }
    return concat(...parts);
  }

  #run(rows, picked, profile) {
    const space = this.#space;
    const { n_embd, n_ff, kind } = this.#layout;
    const [gate, up, down] = this.#matrices;
    const n = picked.length;
    const prepare = (coded, n_cols) => {
      const ready = space.place(((n * n_cols) / 32) * 112);
      space.step(PREPARE, coded, n, n_cols, ready);
      return ready;
    };
    const code = (x, n_cols, as) => {
      const coded = space.place(coded_bytes(as, n * n_cols));
      space.step(CODE, x, n, n_cols, Q[as], coded);
      return coded;
    };
    const multiply = ({ format, at, n_rows, n_cols, bias }, [ready, floats]) => {
      const y = space.place(4 * n * n_rows);
      const x = is_integer(format) ? ready : floats;
      space.step(MULTIPLY, format, at, n_rows, n_cols, x, n, y, n_rows);
      if (bias) space.step(ADD_BIAS, bias, n_rows, y, n, n_rows);
      return y;
    };
    space.begin();
    const x = [
      rows.coded && prepare(this.#put_coded(rows, picked), n_embd),
      rows.floats && this.#put_floats(rows, picked),
    ];
    const g = multiply(gate, x);
    const u = multiply(up, x); // right behind g
    space.step(CHECK, g, 2 * n * n_ff);
    space.step(ACTIVATE, kind, ...this.#numbers, g, u, n * n_ff, g);
    const h = is_integer(down.format) ? prepare(code(g, n_ff, 2), n_ff) : g;
    const y = multiply(down, [h, h]);
    space.step(CHECK, y, n * n_embd);
    const at = profile ? code(y, n_embd, profile) : y;
    space.run();
    const coded = space.bytes.slice(at, at + coded_bytes(profile, n * n_embd));
    if (profile) check_decodable(coded, n, n_embd, profile);
    return coded;
  }

  #put_coded({ coded: { codes, scales }, n_embd }, picked) {
    const { bytes, floats } = this.#space;
    const at = this.#space.place(coded_bytes(2, picked.length * n_embd));
    picked.forEach((row, i) => {
      const own = at + coded_bytes(2, i * n_embd);
      bytes.set(row_of(codes, row, n_embd), own);
      floats.set(row_of(scales, row, n_embd / 32), (own + n_embd) / 4);
    });
    return at;
  }

  #put_floats({ floats, n_embd }, picked) {
    const at = this.#space.place(4 * picked.length * n_embd);
    picked.forEach((row, i) => {
      this.#space.floats.set(row_of(floats, row, n_embd), at / 4 + i * n_embd);
    });
    return at;
  }
}

/** Refuse a scale with which the largest code is more than there is; NonFinite. */
function check_decodable(coded, n, n_embd, profile) {
  const words = new Float32Array(coded.buffer);
  for (let i = 1; i <= n; i++) {
    const end = (i * words.length) / n;
    const fits = words.subarray(end - n_embd / 32, end)
      .every((scale) => Math.fround(scale * Q[profile]) < Infinity);
    must(fits, "NonFinite", "a result is too large to be coded");
  }
}

/** Refuse rows that the block coding cannot give: CodeRefused, NonFinite. */
function check_rows({ coded, floats }) {
  const can_be = !coded || (!coded.codes.includes(-128)
    && coded.scales.every((scale) => scale >= 0 && scale < Infinity));
  must(can_be, "CodeRefused", "a code of -128 or a scale that is none");
  must(!floats || floats.every(Number.isFinite), "NonFinite", "a row is not finite");
}

/** The 16-byte hash of the rows picked. */
export function x_hash({ coded, floats, n_rows }, picked) {
  const parts = [coded?.codes, coded?.scales, floats].filter(Boolean).map(bytes_of);
  const some = (raw) =>
    Array.from(picked, (row) => row_of(raw, row, raw.length / n_rows));
  return sha256(...parts.flatMap(some)).slice(0, 16);
}

/** The 16-byte hash of a call's coded results. */
export const out_hash = (coded) => sha256(coded).slice(0, 16);

/**
 * What comes of a dispatch, rows with {profile, calls: [{rows}]}, by the experts of its
 * calls: {error, reason, results, n_rows, hashes: [{x, out}], compute_us}, the error as
 * in OutputError. KernelUnavailable is thrown: the workspace is to be left.
 */
export function compute(dispatch, experts) {
  const started = performance.now();
  const { profile, calls } = dispatch;
  const results = new Uint8Array();
  const outcome = { error: 0, reason: "", results, n_rows: 0, hashes: [] };
  try {
    check_rows(dispatch);
    const coded = calls.map(({ rows }, i) =>
      experts[i].compute_call(dispatch, rows, profile));
    outcome.results = concat(...coded);
    outcome.n_rows = calls.reduce((sum, { rows }) => sum + rows.length, 0);
    outcome.hashes = calls.map(({ rows }, i) =>
      ({ x: x_hash(dispatch, rows), out: out_hash(coded[i]) }));
  } catch (error) {
    if (!(error instanceof Refused) || error.kind === "KernelUnavailable") throw error;
    outcome.error = error.kind === "NonFinite" ? 1 : 5;
    outcome.reason = error.message;
  }
  return { ...outcome, compute_us: Math.floor((performance.now() - started) * 1000) };
}
