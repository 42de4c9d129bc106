/** The price table: what a row of each expert costs in one price epoch, signed by the
 * market; layout and rules in ledger/prices.py. */
import { check, layout, view_of } from "./bytes.js";
import { sha256, verify } from "./crypto.js";
import { check_amount } from "./leaf.js";

const HEAD = layout("PMPT\x01", "network:32s manifest_hash:32s epoch:I base_uc:q n:I");
const MAX_ROWS = 1 << 17;
const ONE = 1 << 16; // Q16.16
export const MAX_PRICE_TABLE_BYTES = HEAD.size + 8 * MAX_ROWS;

/** Prices of one model in one epoch: the head's fields and `content_hash`. */
export class PriceTable {
  #rows;

  /** Read canonical bytes, which are kept, or throw ProtocolError. */
  static parse(raw) {
    const head = HEAD.read(raw);
    const table = Object.assign(new PriceTable(), head, { base_uc: check_amount(head.base_uc) });
    check(head.n <= MAX_ROWS && raw.length === HEAD.size + 8 * head.n, `${head.n} prices`);
    table.#rows = view_of(raw.subarray(HEAD.size));
    for (let i = 0; i < head.n; i++) {
      const [expert, multiplier] = table.#row(i);
      check(multiplier !== ONE && (!i || expert > table.#row(i - 1)[0]), "prices not in order");
    }
    table.content_hash = sha256(raw);
    return table;
  }

  /** Micro-credits for so many rows of the expert, or ProtocolError. */
  amount(layer, expert, rows) {
    const wanted = layer * 65536 + expert;
    let [low, high] = [0, this.n];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#row(middle)[0] < wanted) low = middle + 1;
      else high = middle;
    }
    const [found, multiplier] = low < this.n ? this.#row(low) : [];
    const unit = BigInt(this.base_uc) * BigInt(found === wanted ? multiplier : ONE) >> 16n;
    return check_amount(BigInt(rows) * unit);
  }

  #row(i) {
    return [this.#rows.getUint32(8 * i), this.#rows.getUint32(8 * i + 4)];
  }
}

/** The table of bytes that the market signed, or ProtocolError. */
export async function open_price_table(raw, signature, market) {
  check(await verify(market, "p2pmoe/prices/v1\0", raw, signature), "prices nobody signed");
  return PriceTable.parse(raw);
}
