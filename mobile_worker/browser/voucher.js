/** The voucher: what one tab has earned so far, signed by worker and backbone; layout and
 * rules in ledger/voucher.py. Rows and issued_us are BigInt, ranges [first, last]. */
import { check, concat, equal, layout } from "./bytes.js";
import { sha256, verify } from "./crypto.js";
import { check_amount } from "./leaf.js";

const DOMAIN = "p2pmoe/voucher/v1\0";
const HEAD = layout("PMVO\x01", "network:32s manifest_hash:32s profile:B worker:32s "
  + "backbone:32s tab:8s price_epoch:I number:I previous:32s final:B n_ranges:H");
const RANGE = layout("", "first:I last:I");
const TAIL = layout("", "leaves:I rows:Q amount_uc:q price_table_hash:32s grant_hash:32s "
  + "root:32s issued_us:Q");
const MAX_RANGES = 4096;
export const MAX_VOUCHER_BYTES = HEAD.size + MAX_RANGES * RANGE.size + TAIL.size;
/** What the first voucher of a tab names as the one before. */
export const NO_VOUCHER = new Uint8Array(32);

function check_voucher(voucher) {
  const { number, ranges, leaves, rows, issued_us } = voucher;
  const is_first = equal(voucher.previous, NO_VOUCHER);
  check(number && is_first === (number === 1), `voucher ${number} and the one before`);
  check(rows < 2n ** 63n && issued_us < 2n ** 63n, `${rows} rows, issued at ${issued_us}`);
  let [n, previous] = [0, -2];
  for (const [first, last] of ranges) {
    check(first > previous + 1 && first <= last, "accepted ranges are not canonical");
    n += last - first + 1;
    previous = last;
  }
  check(n === leaves && rows >= n && ranges.length <= MAX_RANGES, `${leaves} leaves of ${n}`);
  return { ...voucher, amount_uc: check_amount(voucher.amount_uc) };
}

/** The canonical bytes of a voucher's fields, or ProtocolError. */
export function pack_voucher(voucher) {
  const { ranges, final } = check_voucher(voucher);
  return concat(HEAD.pack({ ...voucher, final: final ? 1 : 0, n_ranges: ranges.length }),
    ...ranges.map(([first, last]) => RANGE.pack({ first, last })), TAIL.pack(voucher));
}

/** The voucher of canonical bytes, or ProtocolError. */
export function parse_voucher(raw) {
  const { n_ranges, final, ...head } = HEAD.read(raw);
  const end = HEAD.size + n_ranges * RANGE.size;
  check(raw.length === end + TAIL.size && final < 2, `a voucher of ${raw.length} bytes`);
  const ranges = Array.from({ length: n_ranges }, (_, i) =>
    Object.values(RANGE.read(raw, HEAD.size + i * RANGE.size)));
  return check_voucher({ ...head, final: final === 1, ranges, ...TAIL.parse(raw.subarray(end)) });
}

/** The 32-byte name of a voucher's bytes. */
export const voucher_hash = (raw) => sha256(raw);

/** Our 64-byte signature of a packed voucher. */
export const sign_voucher = (raw, identity) => identity.sign(DOMAIN, raw);

/** Whether `signer` signed these bytes. */
export const verify_voucher = (raw, signature, signer) => verify(signer, DOMAIN, raw, signature);
