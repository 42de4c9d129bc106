/** The relay's frames as a peer sends and takes them, and its way in: relay/frames.py,
 * frame_types.py (codes, which stay numbers here), greetings.py, handshake.py, tickets.py.
 * One frame a WebSocket message; what is none is a ProtocolError. */
import { check, concat, is_bytes, layout, pack, text_of, utf8 } from "./bytes.js";
import { check_peer_id, random_bytes, sha256, verify } from "./crypto.js";
import { decode } from "./msgpack.js";

export const SUBPROTOCOL = "p2pmoe-relay.v1";
const MAX_PAYLOAD_BYTES = 65535;
const NONCE = layout("", "kind:B nonce:8s");
const DATA = layout("", "kind:B flags:B ms:H flow:I peer:32s");
const LIMITS = layout("",
  "max_payload:I bytes_s:I burst:I frames_s:I queue_bytes:I max_ttl_ms:H lease_s:I");
const ROWS = layout("", "kind:B n:H");
const RESTARTING = layout("\x04", "reconnect_in_ms:I try_for_ms:I");
const NACK = layout("\x12", "reason:B count:H flow:I peer:32s retry_ms:H");
const GONE = layout("\x13", "peer:32s reason:B");
const PRESENCE = layout("", "peer:32s state:B");
const SEEN_FROM = layout("", "peer:32s prefix:7s");
const CHALLENGE = layout("\x20P2PMOER1\x01", "flags:B relay_id:32s nonce:32s time_ms:Q");
const AUTH = layout("\x21", "peer_id:32s nonce:16s role:B caps:I n_token:H");
const DENY = layout("\x23", "code:B retry_ms:I");

export const encode_ping = (nonce) => NONCE.pack({ kind: 1, nonce });
export const encode_pong = (nonce) => NONCE.pack({ kind: 2, nonce });
/** Tell me when these peers come and go. */
export const encode_watch = (peers) => concat(ROWS.pack({ kind: 0x14, n: peers.length }), ...peers);

/** A SEND of a payload in a class 0 to 2; nack: say if it is dropped. */
export function encode_send(peer, payload, in_class, { flow = 0, ms = 2000, nack = true } = {}) {
  check(payload.length <= MAX_PAYLOAD_BYTES, `a payload of ${payload.length} bytes`);
  return concat(DATA.pack({ kind: 0x10, flags: in_class | (nack && 4), ms, flow, peer }), payload);
}

function code_in(found, code, least, most) {
  check(code >= least && code <= most, `unknown code ${code}`);
  return found;
}

function rows_of(raw, row) {
  const { n } = ROWS.read(raw);
  check(n <= 256 && raw.length === ROWS.size + n * row.size, `a frame of ${n} rows`);
  return Array.from({ length: n }, (_, i) => row.read(raw, ROWS.size + i * row.size));
}

function text_behind(raw, at) {
  check(raw.length >= at && raw.length <= 256, `a frame of ${raw.length} bytes`);
  return text_of(raw.subarray(at));
}

function parse_recv(raw) {
  const { flags, ms, flow, peer } = DATA.read(raw);
  const payload = raw.subarray(DATA.size);
  check(flags < 8 && (flags & 3) < 3 && payload.length <= MAX_PAYLOAD_BYTES, `flags ${flags}`);
  return { type: "recv", peer, payload, in_class: flags & 3, nack: flags > 3, flow, age_ms: ms };
}

function check_prefix({ prefix }) { // a packed network prefix: relay/prefixes.py
  const n = { 0: 1, 4: 4, 6: 7 }[prefix[0]];
  check(n && prefix.subarray(n).every((byte) => !byte), "no network prefix");
}

const PARSERS = {
  0x01: (raw) => ({ type: "ping", nonce: NONCE.parse(raw).nonce }),
  0x02: (raw) => ({ type: "pong", nonce: NONCE.parse(raw).nonce }),
  0x03: (raw) => code_in({ type: "status", text: text_behind(raw, 2), code: raw[1] }, raw[1], 0, 6),
  0x04: (raw) => ({ type: "restarting", ...RESTARTING.parse(raw) }),
  0x05: (raw) => ({ type: "limits", ...LIMITS.parse(raw.subarray(1)) }),
  0x11: parse_recv,
  0x12: (raw) => code_in({ type: "nack", ...NACK.parse(raw) }, raw[1], 1, 7),
  0x13: (raw) => code_in({ type: "gone", ...GONE.parse(raw) }, raw.at(-1), 1, 4),
  0x15(raw) {
    const peers = rows_of(raw, PRESENCE);
    for (const { state } of peers) code_in(null, state, 0, 2);
    return { type: "presence", peers };
  },
  0x96(raw) {
    const peers = rows_of(raw, SEEN_FROM);
    peers.forEach(check_prefix);
    return { type: "seen_from", peers };
  },
};

/** A frame from the relay; null for an unknown type of 0x80 or above. */
export function parse_frame(raw) {
  const parse = PARSERS[raw[0]];
  if (!parse && raw[0] >= 0x80) return null;
  check(parse, `unknown frame type ${raw[0]}`);
  return parse(raw);
}

/** The subprotocols to ask for: the relay's, and the ticket of its last welcome. */
export function subprotocols(ticket = "") {
  const text = btoa(String.fromCharCode(...ticket)).replace(/=+$/, "");
  const shown = "p2pmoe-ticket." + text.replaceAll("+", "-").replaceAll("/", "_");
  return ticket.length ? [SUBPROTOCOL, shown] : [SUBPROTOCOL];
}

/** The relay's first word: {relay_id, nonce, time_ms, flags}. */
export function parse_challenge(raw) {
  const challenge = CHALLENGE.parse(raw);
  check_peer_id(challenge.relay_id);
  return challenge;
}

/** The 16 bytes of our wall clock and chance that an AUTH shows. */
export const client_nonce = (wall_ms) =>
  concat(pack("Q", wall_ms), random_bytes(8));

/** The AUTH that answers the challenge of the relay at `host`; role as in relay/tokens.py. */
export async function answer_challenge(challenge, identity, { host, nonce, role, token }) {
  const name = utf8(host);
  const head = AUTH.pack({ peer_id: identity.peer_id, nonce, role, caps: 0, n_token: token.length });
  const claimed = head.subarray(1, -2); // id, nonce, role, caps
  const text = concat(challenge.relay_id, pack("H", name.length), name, challenge.nonce,
    claimed, sha256(token));
  return concat(head, token, await identity.sign("p2pmoe relay auth v1\0", text));
}

/** The WELCOME that this very relay signed for us, or ProtocolError. */
export async function open_welcome(raw, challenge, peer_id, nonce) {
  check(raw.length > 65 && raw.length <= 4096 && raw[0] === 0x22, "no welcome");
  const values = decode(raw.subarray(1, -64), 7);
  check(Array.isArray(values) && values.length === 7, "a welcome of another form");
  const [session, observed_address, limits, map_version, skew_us, descriptor, ticket] = values;
  const bytes = (value, least, most) =>
    is_bytes(value) && value.length >= least && value.length <= most;
  check(bytes(session, 16, 16) && bytes(limits, 26, 26) && bytes(descriptor, 0, 1024)
    && bytes(ticket, 0, 128) && typeof observed_address === "string"
    && utf8(observed_address).length <= 256 && typeof map_version === "bigint"
    && typeof skew_us === "bigint", "a welcome of other values");
  const text = concat(challenge.nonce, nonce, peer_id, session, sha256(limits),
    sha256(descriptor));
  const signature = raw.subarray(-64);
  check(await verify(challenge.relay_id, "p2pmoe relay welcome v1\0", text, signature),
    "the relay does not hold the key of its id");
  const said = { session, observed_address, map_version, skew_us, descriptor, ticket };
  return { ...said, ...LIMITS.parse(limits) };
}

/** The relay's no: {code, retry_ms, text}; the code may be of a later version. */
export const parse_deny = (raw) => ({ ...DENY.read(raw), text: text_behind(raw, DENY.size) });
