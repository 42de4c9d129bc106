/** The leaf: 79 bytes for one expert served; layout and rules in ledger/leaf.py. */
import { check, layout } from "./bytes.js";

const LEAF = layout("\x01", "tab:8s serving:I request:Q layer:H expert:H rows:H price_epoch:I "
  + "x_hash:16s out_hash:16s nonce:8s amount_uc:q");
export const LEAF_BYTES = LEAF.size;

/** An amount of micro-credits as a number, or ProtocolError: below 2^53. */
export function check_amount(amount_uc) {
  check(amount_uc >= 0 && amount_uc <= Number.MAX_SAFE_INTEGER, `${amount_uc} micro-credits`);
  return Number(amount_uc);
}

function check_leaf(leaf) {
  check(leaf.rows, "a leaf without rows");
  return { ...leaf, amount_uc: check_amount(leaf.amount_uc) };
}

/** The 79 bytes of a leaf; ProtocolError if a field is out of its bounds. */
export const pack_leaf = (leaf) => LEAF.pack(check_leaf(leaf));

/** The leaf of 79 bytes, or ProtocolError; its request is a BigInt. */
export const parse_leaf = (raw) => check_leaf(LEAF.parse(raw));
