/**
 * Specification 02 once more, a value at a time with Math.fround: the scalar reference
 * that the modules are compared with. Formats: F32, Q4_0 and Q8_0.
 *
 * Each operation is done in binary64 and rounded to binary32 at once, which for +, -, *
 * and / of binary32 values is exact (Figueroa, 1995).
 */
const f = Math.fround;

function rint(x) {
  const low = Math.floor(x);
  if (x - low !== 0.5) return Math.round(x);
  return low % 2 ? low + 1 : low;
}

export function exp(z) {
  const clamped = Math.min(Math.max(z, -87), 88);
  const n = rint(f(clamped * f(1.44269504)));
  let r = f(clamped - f(n * 0.693359375));
  r = f(r - f(n * f(-2.1219444e-4)));
  let p = f(1.98756915e-4);
  for (const c of [1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
    5.0000001201e-1]) {
    p = f(f(p * r) + f(c));
  }
  return f(f(f(f(p * f(r * r)) + r) + 1) * 2 ** n);
}

export const sigmoid = (z) => f(1 / f(1 + exp(-z)));

export const silu = (z) => f(z * sigmoid(z));

/** The gated product of two values; kind 0 swiglu, 1 swiglu_oai. */
export function activate({ kind, alpha, limit }, g, u) {
  if (!kind) return f(silu(g) * u);
  const most = f(limit);
  const gate = Math.min(g, most);
  const up = Math.max(Math.min(u, most), -most);
  return f(f(up + 1) * f(gate * sigmoid(f(f(alpha) * gate))));
}

/** Codes and scales of a row whose length is a multiple of 32. */
export function quantize_row(x, q) {
  const codes = [];
  const scales = [];
  for (let at = 0; at < x.length; at += 32) {
    const block = [...x.slice(at, at + 32)];
    const amax = Math.max(...block.map(Math.abs));
    const scale = amax < 2 ** -100 ? 0 : f(amax / q);
    const inverse = scale ? f(1 / scale) : 0;
    scales.push(scale);
    codes.push(...block.map((v) => Math.max(-q, Math.min(q, rint(f(v * inverse)))) + 0));
  }
  return { codes, scales };
}

function half(view, at) {
  const bits = view.getUint16(at, true);
  const [exponent, mantissa] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent ? (1 + mantissa / 1024) * 2 ** (exponent - 15) : mantissa * 2 ** -24;
  return bits & 0x8000 ? -size : size;
}

/** The blocks of 32 of a row, {codes, scale}. */
function blocks_of(name, raw) {
  const size = name === "Q4_0" ? 18 : 34;
  const view = new DataView(raw.buffer, raw.byteOffset, raw.length);
  return Array.from({ length: raw.length / size }, (_, b) => {
    const at = b * size;
    const codes = Array.from({ length: 32 }, (_, i) => {
      if (name === "Q8_0") return view.getInt8(at + 2 + i);
      const byte = raw[at + 2 + (i % 16)];
      return (i < 16 ? byte & 15 : byte >> 4) - 8;
    });
    return { codes, scale: half(view, at) };
  });
}

function lane_dot(weights, x) {
  const l = Array(8).fill(0);
  weights.forEach((w, k) => {
    l[k % 8] = f(l[k % 8] + f(w * x[k]));
  });
  return f(f(f(l[0] + l[1]) + f(l[2] + l[3])) + f(f(l[4] + l[5]) + f(l[6] + l[7])));
}

function block_dot(blocks, { codes, scales }) {
  return blocks.reduce((sum, block, b) => {
    const dot = block.codes.reduce((all, code, i) => all + code * codes[32 * b + i], 0);
    return f(sum + f(f(dot) * f(block.scale * scales[b])));
  }, 0);
}

/** A matrix {name, raw, n_rows, bias} times one row of floats. */
export function product_row({ name, raw, n_rows, bias }, x) {
  const size = raw.length / n_rows;
  const coded = quantize_row(x, 127);
  return Array.from({ length: n_rows }, (_, r) => {
    const row = raw.slice(r * size, (r + 1) * size);
    const y = name === "F32"
      ? lane_dot(new Float32Array(row.buffer), x)
      : block_dot(blocks_of(name, row), coded);
    return bias ? f(y + bias[r]) : y;
  });
}

/** One row of floats through an expert {gate, up, down} of matrices, uncoded. */
export function expert_row({ gate, up, down }, activation, x) {
  const [g, u] = [gate, up].map((matrix) => product_row(matrix, x));
  return product_row(down, g.map((each, i) => activate(activation, each, u[i])));
}
