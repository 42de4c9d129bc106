/**
 * Block formats by ggml number, those that the modules compute with, and the error of
 * the compute modules. Reference: arithmetic/formats/block_format.py, codecs.py.
 */
import { ProtocolError } from "./bytes.js";

/** What cannot be computed or stored; `kind` is the name of Python's error. */
export class Refused extends ProtocolError {
  constructor(kind, why) {
    super(why);
    this.kind = kind;
  }
}

/** Throw a Refused unless `fine`. */
export function must(fine, kind, why) {
  if (!fine) throw new Refused(kind, why);
}

/** number -> [name, values in a block, bytes of a block] */
export const FORMATS = new Map([
  [0, ["F32", 1, 4]], [1, ["F16", 1, 2]], [2, ["Q4_0", 32, 18]], [3, ["Q4_1", 32, 20]],
  [6, ["Q5_0", 32, 22]], [7, ["Q5_1", 32, 24]], [8, ["Q8_0", 32, 34]],
  [10, ["Q2_K", 256, 84]], [11, ["Q3_K", 256, 110]], [12, ["Q4_K", 256, 144]],
  [13, ["Q5_K", 256, 176]], [14, ["Q6_K", 256, 210]], [20, ["IQ4_NL", 32, 18]],
  [23, ["IQ4_XS", 256, 136]], [30, ["BF16", 1, 2]], [39, ["MXFP4", 32, 17]],
  [40, ["NVFP4", 64, 36]],
]);

/** Whether products take coded rows, else floats. */
export const is_integer = (format) => FORMATS.get(format)[1] > 1;

/** The bytes of a matrix; FormatUnsupported, MatrixMalformed. */
export function matrix_bytes(format, n_rows, n_cols) {
  const [name, values, n_bytes] = FORMATS.get(format) ?? [];
  must(name, "FormatUnsupported", `cannot compute with format ${format}`);
  const fits = n_rows > 0 && n_cols > 0 && n_cols % Math.max(32, values) === 0;
  must(fits, "MatrixMalformed", `no ${name} matrix is ${n_rows} x ${n_cols}`);
  return ((n_rows * n_cols) / values) * n_bytes;
}
