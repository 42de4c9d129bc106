/**
 * A shard's bytes as one expert's weights: gate, up and down, then their biases.
 * Reference: shards/shard.py, and shards/manifest.py for layouts.
 */
import { check } from "./bytes.js";
import { matrix_bytes } from "./formats.js";

const is_f32 = (x) => typeof x === "number" && Math.abs(x) <= 3.4028234663852886e38;

/** The layout that 9 items of a manifest's msgpack are, or ProtocolError. */
export function layout_of(items) {
  check(Array.isArray(items) && items.length === 9, "a layout has 9 items");
  const bounds = [[0, 255], [0, 255], [0, 255], [1, 1 << 20], [1, 1 << 20], [0, 1]];
  const [gate, up, down, n_embd, n_ff, kind] = bounds.map(([low, high], i) => {
    const value = Number(items[i]);
    const fits = typeof items[i] === "bigint" && low <= value && value <= high;
    check(fits, `item ${i} of a layout is not in ${low}..${high}`);
    return value;
  });
  const [alpha, limit, biased] = items.slice(6);
  check(is_f32(alpha) && is_f32(limit), "alpha or limit is no finite f32");
  check(typeof biased === "boolean", "a layout says whether it is biased");
  return { formats: [gate, up, down], n_embd, n_ff, kind, alpha, limit, biased };
}

/**
 * Where the parts of a shard at `at` lie: matrices {format, n_rows, n_cols, at, bias},
 * bias 0 for none, and n_bytes of all. FormatUnsupported, MatrixMalformed.
 */
export function shard_parts({ formats, n_embd, n_ff, biased }, at = 0) {
  let end = at;
  const room = (n_bytes) => (end += n_bytes) - n_bytes;
  const matrices = formats.map((format, i) => {
    const [n_rows, n_cols] = i < 2 ? [n_ff, n_embd] : [n_embd, n_ff];
    const first = room(matrix_bytes(format, n_rows, n_cols));
    return { format, n_rows, n_cols, at: first, bias: 0 };
  });
  if (biased) for (const each of matrices) each.bias = room(4 * each.n_rows);
  return { matrices, n_bytes: end - at };
}
