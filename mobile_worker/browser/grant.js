/** The grant: the ledger's signed permission for a backbone to owe a worker; layout and
 * rules in ledger/grant.py. */
import { check, layout } from "./bytes.js";
import { sha256, verify } from "./crypto.js";
import { check_amount } from "./leaf.js";

const GRANT = layout("PMGR\x01", "network:32s manifest_hash:32s worker:32s backbone:32s "
  + "price_table_hash:32s ceiling_uc:q expiry_us:Q float_leaves:I serial:8s");

/** The grant of bytes that the ledger signed, or ProtocolError; expiry_us is a BigInt. */
export async function open_grant(raw, signature, ledger) {
  check(await verify(ledger, "p2pmoe/grant/v1\0", raw, signature), "a grant nobody signed");
  const grant = GRANT.parse(raw);
  check(grant.expiry_us < 2n ** 63n, `a grant until ${grant.expiry_us}`);
  const ceiling_uc = check_amount(grant.ceiling_uc);
  return { ...grant, ceiling_uc, content_hash: sha256(raw) };
}
