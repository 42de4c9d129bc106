/** What a peer signs about itself, and what a network says of its services: a msgpack list
 * [version, ...] and 64 B of signature, as in session/signed.py, records.py, descriptor.py. */
import { check, concat, is_bytes } from "./bytes.js";
import { check_peer_id, verify } from "./crypto.js";
import { decode, encode } from "./msgpack.js";

const RECORD = "p2pmoe peer record v1\0";
const DESCRIPTOR = "p2pmoe network descriptor v1\0";

async function open_signed(domain, encoded, n_values) {
  check(encoded.length > 64 && encoded.length <= 1024, `a record of ${encoded.length} bytes`);
  const packed = encoded.subarray(0, -64);
  const values = decode(packed, 16);
  check(Array.isArray(values) && values.length === n_values, `no list of ${n_values} values`);
  check([1n, 1, true].includes(values[0]), "a record of another version");
  const signed = await verify(id_of(values[1]), domain, packed, encoded.subarray(-64));
  check(signed, "a record with a wrong signature");
  return values;
}

const id_of = (value) => check_peer_id(bytes32(value));

function bytes32(value) {
  check(is_bytes(value) && value.length === 32, "not 32 bytes");
  return value;
}

function whole(value, max) {
  check(typeof value === "bigint" && value >= 0n && value <= max, `no integer to ${max}`);
  return value;
}

function strings(value) {
  const fine = Array.isArray(value) && value.every((item) => typeof item === "string");
  check(fine && value.length <= 8, "no short list of addresses");
  return value;
}

/** The signed bytes of our record; self_test is 32 bytes, not_after_us microseconds. */
export async function sign_record(identity, { role, relays, self_test, not_after_us, sequence }) {
  const { peer_id, fixed } = identity;
  const packed = encode(
    [1, peer_id, fixed.public, role, relays, [], 0, self_test, not_after_us, sequence]);
  check(packed.length <= 1024 - 64, `a record of ${packed.length} bytes`);
  return concat(packed, await identity.sign(RECORD, packed));
}

/** The verified record of signed bytes; times and sequence are BigInt. */
export async function parse_record(encoded) {
  const values = await open_signed(RECORD, encoded, 10);
  return {
    peer_id: values[1],
    static_key: bytes32(values[2]),
    role: Number(whole(values[3], 6)),
    relays: strings(values[4]),
    direct_addresses: strings(values[5]),
    capabilities: Number(whole(values[6], 2 ** 32 - 1)),
    self_test: bytes32(values[7]),
    not_after_us: whole(values[8], 2 ** 63),
    sequence: whole(values[9], 2 ** 63),
    encoded,
  };
}

/** The verified {network, market, ledger} of a descriptor; null for nobody. */
export async function parse_descriptor(encoded) {
  const [, network, ...services] = await open_signed(DESCRIPTOR, encoded, 4);
  const [market, ledger] = services.map((id) => (is_bytes(id) && !id.length ? null : id_of(id)));
  return { network, market, ledger };
}
