/**
 * That this engine's arithmetic is the specification's, and how fast it is.
 * Reference: arithmetic/self_test.py, to the byte, and arithmetic/rate.py.
 */
import { concat, equal, from_hex, utf8 } from "./bytes.js";
import { sha256 } from "./crypto.js";
import { Expert, bytes_of, coded_bytes } from "./expert.js";
import { FORMATS, matrix_bytes, must } from "./formats.js";
import { CODE, Workspace } from "./kernel.js";
import { shard_parts } from "./shard_file.js";

const DIGEST = "531243f2c3cb5a74ae73cebf9de965fda60f884560b420018f3f816cefef404c";
const N_ROWS = 9;
// Format -> the bytes of a block in which a mask is kept and bits are set: modest weights
const PLACES = {
  3: [1, 3], 7: [1, 3], 10: [81, 83], 11: [109], 12: [1, 3], 13: [1, 3], 14: [209],
  39: [0], 40: [0, 1, 2, 3],
};
const BITS = { 1: [0xb9, 0], 30: [0x83, 0x3c], 39: [7, 0x78], 40: [0x3f, 0] };

function fixed_bytes(label, n) {
  const digests = Array.from({ length: Math.ceil(n / 32) }, (_, i) =>
    sha256(utf8(label), bytes_of(Uint32Array.of(i))));
  return concat(...digests).slice(0, n);
}

function fixed_floats(label, n, divisor = 4096) {
  const integers = new Int16Array(fixed_bytes(label, 2 * n).buffer);
  return Float32Array.from(integers, (each) => each / divisor);
}

function fixed_matrix(label, format, n_rows, n_cols) {
  if (!format) return bytes_of(fixed_floats(label, n_rows * n_cols, 65536));
  const raw = fixed_bytes(label, matrix_bytes(format, n_rows, n_cols));
  const [, values, n_bytes] = FORMATS.get(format);
  const [mask, bits] = BITS[format] ?? [0x87, values > 32 ? 0x10 : 0x20];
  for (const place of PLACES[format] ?? [1]) {
    for (let at = place; at < raw.length; at += n_bytes) {
      raw[at] = (raw[at] & mask) | bits;
    }
  }
  return raw;
}

/** Fixed rows, coded by the module: all of them as if they were one. */
function fixed_rows(space, n_embd) {
  const n = N_ROWS * n_embd;
  const floats = fixed_floats(`p2pmoe self-test rows ${n_embd}`, n);
  space.begin();
  const x = space.place(4 * n);
  space.floats.set(floats, x / 4);
  const at = space.place(coded_bytes(2, n));
  space.step(CODE, x, 1, n, 127, at);
  space.run();
  const codes = new Int8Array(space.bytes.slice(at, at + n).buffer);
  const scales = space.floats.slice((at + n) / 4, (at + n) / 4 + n / 32);
  return { n_rows: N_ROWS, n_embd, coded: { codes, scales }, floats };
}

/** Four experts of a format, [layout, shard]: two shapes, without and with biases. */
function* fixed_experts(format) {
  const label = `p2pmoe self-test ${FORMATS.get(format)[0]}`;
  const shapes = [
    [256, 32, [format, format, 8], ["g", "u", "last"]],
    [32, 256, [8, 2, format], ["gate", "up", "down"]],
  ];
  for (const [n_embd, n_ff, formats, names] of shapes) {
    const layout = { formats, n_embd, n_ff, kind: 0, alpha: 1.702, limit: 7 };
    const matrices = shard_parts(layout).matrices.map((each, i) =>
      fixed_matrix(`${label} ${names[i]}`, each.format, each.n_rows, each.n_cols));
    const biases = ["gate", "up", "down"].map((part, i) =>
      bytes_of(fixed_floats(`${label} ${part} bias`, i < 2 ? n_ff : n_embd)));
    yield [layout, concat(...matrices)];
    yield [{ ...layout, kind: 1, biased: true }, concat(...matrices, ...biases)];
  }
}

/** The specification's digest, 32 bytes, if this engine gives it; KernelUnavailable. */
export function self_test(module) {
  const space = new Workspace(module, 2 << 20, 1 << 17, 1 << 20);
  const at = space.take("", 1);
  const inputs = { 32: fixed_rows(space, 32), 256: fixed_rows(space, 256) };
  const parts = Object.values(inputs).flatMap(({ coded }) =>
    [bytes_of(coded.codes), bytes_of(coded.scales)]);
  const all = [...Array(N_ROWS).keys()];
  for (const format of FORMATS.keys()) {
    for (const [layout, shard] of fixed_experts(format)) {
      space.bytes.set(shard, at);
      const expert = new Expert(space, layout, at);
      for (const [picked, profile] of [[all, 0], [all, 1], [all, 2], [[0], 1]]) {
        parts.push(expert.compute_call(inputs[layout.n_embd], picked, profile));
      }
    }
  }
  const digest = sha256(...parts);
  const is_right = equal(digest, from_hex(DIGEST));
  must(is_right, "KernelUnavailable", "this browser computes wrongly: do not use it");
  return digest;
}

/** Multiply-adds a second with one row of a Q4_0 expert, as decoding has it. */
export function measure_rate(module, within_ms = 100) {
  const [n_embd, n_ff] = [2048, 512];
  const space = new Workspace(module, 4 << 20, 2 << 20, 1 << 20);
  const layout = { formats: [2, 2, 2], n_embd, n_ff, kind: 0, alpha: 1, limit: 1 };
  const expert = new Expert(space, layout, space.take("", 1)); // zeros take as long
  const coded = { codes: new Int8Array(n_embd), scales: new Float32Array(n_embd / 32) };
  const rows = { n_rows: 1, n_embd, coded, floats: null };
  expert.compute_call(rows, [0], 1);
  let best = 0; // of several short runs: other work can only slow one down
  for (let run = 0; run < 10; run++) {
    const started = performance.now();
    let n = 0;
    let took_ms = 0;
    while (took_ms < within_ms / 10) {
      expert.compute_call(rows, [0], 1);
      took_ms = performance.now() - started;
      n++;
    }
    best = Math.max(best, n / took_ms);
  }
  return Math.floor(1000 * best * expert.row_macs);
}
