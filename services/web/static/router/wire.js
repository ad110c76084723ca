// The bytes of messages and link items (cddl/), as router/core/wire makes and reads them: no I/O, no clock.
import { xchacha20poly1305 } from '../vendor/ciphers/chacha.js';
import { blake3 } from './blake3.js';
import { decode as decoded, encode } from './cbor.js';

const EPOCH_S = 1577836800;
const UNICAST = 0, MULTICAST = 1;
const GROUP_LABEL = text('upsycle group body 1');
const KEY_ID_LABEL = text('upsycle content key id 1');
const SAID_LABEL = text('upsycle said 1');
const ACK = 0, BYTES_CODES = [1, 2], OPAQUE_CODES = [10, 11, 12, 13, 14, 15], DEPS_MAX = 256;
const SEALED_ITEMS_MAX = 5, ITEMS_MAX = 15 + DEPS_MAX + 4096;
export const FRAME_BYTES_MAX = (1 << 20) + 4096;

export class Malformed extends Error {}

export function text(words) {
  return new TextEncoder().encode(words);
}

export function words(bytes) {
  return new TextDecoder().decode(bytes);
}

export function joined(...parts) {
  return allJoined(parts);
}

export function allJoined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) { whole.set(part, at); at += part.length; }
  return whole;
}

const DIGITS = Uint8Array.from({ length: 128 }, (_, i) => parseInt(String.fromCharCode(i), 16) || 0);
const PAIRS = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0'));

// By the browser itself, where it can.
export function hex(bytes) {
  if (bytes.toHex) return bytes.toHex();
  let found = '';
  for (const one of bytes) found += PAIRS[one];
  return found;
}

export function unhex(digits) {
  const found = new Uint8Array(digits.length >> 1), digit = at => DIGITS[digits.charCodeAt(at)];
  for (let i = 0; i < found.length; i++) found[i] = digit(2 * i) << 4 | digit(2 * i + 1);
  return found;
}

export function isSame(a, b) {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

export function random(count) {
  return crypto.getRandomValues(new Uint8Array(count));
}

// Random bytes that are used once: asking the browser for each few is dear.
let kept = new Uint8Array(0);
function nonceOf(count) {
  if (kept.length < count) kept = random(64 * count);
  const found = kept.slice(0, count);
  kept = kept.subarray(count);
  return found;
}

export { encode };

// Read one item; what is not in the deterministic encoding is malformed.
export function decode(bytes, most) {
  try {
    return decoded(bytes, most);
  } catch (error) {
    throw new Malformed(error.message);
  }
}

export const digest = blake3;

// The `exp` of what is valid until that Unix second, rounded up to the whole minute.
export function expiryMin(unixS) {
  return Math.max(0, Math.min(0xffffffff, Math.ceil((unixS - EPOCH_S) / 60)));
}

// -- frames -------------------------------------------------------------------------------------------------

// What stands before an item of so many bytes.
export function frameHead(size) {
  return Uint8Array.from(size < 24 ? [0x40 | size] : size < 256 ? [0x58, size] : size < 65536 ? [0x59, size >> 8, size & 255]
    : [0x5a, size >>> 24, (size >> 16) & 255, (size >> 8) & 255, size & 255]);
}

// Cuts a stream, which comes in pieces of any size, into its items.
export class Frames {
  #pieces = [];
  #length = 0;
  #needed = 1;
  #limit;

  constructor(limit) { this.#limit = limit; }

  take(piece) {
    this.#pieces.push(piece);
    this.#length += piece.length;
    if (this.#length < this.#needed) return [];
    const bytes = this.#pieces.length === 1 ? piece : allJoined(this.#pieces), items = [];
    let at = 0;
    for (this.#needed = 1; at < bytes.length; ) {
      const [start, end] = this.#bounds(bytes, at);
      if (end > bytes.length) { this.#needed = end - at; break; }
      items.push(bytes.subarray(start, end));
      at = end;
    }
    this.#pieces = at < bytes.length ? [bytes.subarray(at)] : [];
    this.#length = bytes.length - at;
    return items;
  }

  #bounds(bytes, at) {
    const short = bytes[at] & 31, more = { 24: 1, 25: 2, 26: 4 }[short] ?? 0;
    if (bytes[at] >> 5 !== 2 || (!more && short > 23)) throw new Malformed('the stream holds no frame here');
    const start = at + 1 + more;
    if (start > bytes.length) return [start, start];
    let size = more ? 0 : short;
    for (let i = at + 1; i < start; i++) size = size * 256 + bytes[i];
    if (size > this.#limit) throw new Malformed(`a frame of ${size} bytes, where ${this.#limit} are the most`);
    return [start, start + size];
  }
}

// -- messages -----------------------------------------------------------------------------------------------

// `sign` is a function from bytes to the signature by the source, or by the group's sending key.
async function sealed(type, header, body, sign) {
  const signed = encode([type, header, body]).subarray(1);
  return joined(Uint8Array.of(0x84), signed, encode(await sign(signed)));
}

export function sealUnicast(src, dst, body, { ttl, exp }, sign) {
  return sealed(UNICAST, { src, dst, ttl, exp }, body, sign);
}

export function sealMulticast(grp, body, { ttl, exp, sn = [] }, sign) {
  return sealed(MULTICAST, { grp, ttl, exp, sn }, body, sign);
}

// Read a routed message. Its id covers neither the leading byte nor VIA.
export function readMessage(wire) {
  const item = decode(wire);
  if (!Array.isArray(item) || item.length < 4 || item.length > 5) throw new Malformed('this is no message');
  const [type, header, body, signature, via = null] = item;
  if (!(body instanceof Uint8Array) || signature?.length !== 64 || (via !== null && via.length !== 32)) throw new Malformed('this is no message');
  const end = wire.length - (via === null ? 0 : 34);
  const common = { type, body, signature, via, ttl: header.ttl, exp: header.exp, id: hex(digest(wire.subarray(1, end))) };
  const signed = wire.subarray(1, end - 66);
  if (type === UNICAST) return { ...common, signed, signer: header.src, source: header.src, destination: header.dst };
  return { ...common, signed, signer: header.grp, group: header.grp, seen: header.sn };
}

export function messageId(wire) {
  return readMessage(wire).id;
}

const keyIds = new WeakMap();

export function contentKeyId(contentKey) {
  let found = keyIds.get(contentKey);
  if (!found) keyIds.set(contentKey, found = digest(joined(KEY_ID_LABEL, contentKey)).slice(0, 8));
  return found;
}

// The body of a multicast: a member's signed words under the group's content key.
export async function sealForGroup({ group, contentKey, from, seq, deps, content, nonce = nonceOf(24) }, sign) {
  const header = { to: group, seq, deps, from }, said = [2, content];
  const sig = await sign(encode([header, said]));
  const plain = encode([{ ...header, sig }, said]);
  const secret = xchacha20poly1305(contentKey, nonce, joined(GROUP_LABEL, group)).encrypt(plain);
  return encode([1, contentKeyId(contentKey), nonce, secret]);
}

const isBytes = (value, size) => value instanceof Uint8Array && (size === undefined || value.length === size);
const isNumber = value => (typeof value === 'number' || typeof value === 'bigint') && value >= 0;

// A member may sign anything: only what router/core/wire/application.py takes has a meaning.
function signedWords(item) {
  const [header, said, ...more] = Array.isArray(item) ? item : [], { to, seq, sig, deps, from } = header ?? {};
  const isHeader = isBytes(to, 32) && isNumber(seq) && isBytes(sig, 64) && isBytes(from, 32) && Object.keys(header).length === 5;
  const areDeps = Array.isArray(deps) && deps.length <= DEPS_MAX && deps.every(one => isBytes(one, 32));
  if (!isHeader || !areDeps || !Array.isArray(said) || said.length !== 2 || more.length) throw new Malformed('its words are not of the form that members sign');
  const [code, value] = said, isEmpty = value?.constructor === Object && !Object.keys(value).length;
  const isKnown = code === ACK ? isEmpty && deps.length === 1 : BYTES_CODES.includes(code) ? isBytes(value) : OPAQUE_CODES.includes(code);
  if (!isKnown) throw new Malformed('its words are of a kind that is not known');
  return item;
}

// Open such a body; `verify(signature, bytes, key)` says whether the signature is the member's.
export async function openForGroup(body, group, contentKey, verify) {
  const parts = decode(body, SEALED_ITEMS_MAX);
  if (!Array.isArray(parts) || parts.length !== 4 || parts[0] !== 1) throw new Malformed('it is not sealed');
  const [, keyId, nonce, secret] = parts;
  if (!isBytes(keyId, 8) || !isBytes(nonce, 24) || !isBytes(secret)) throw new Malformed('it is not sealed');
  if (!isSame(keyId, contentKeyId(contentKey))) throw new Malformed('it is sealed under another key; ask for the group\'s newer link');
  let plain;
  try {
    plain = xchacha20poly1305(contentKey, nonce, joined(GROUP_LABEL, group)).decrypt(secret);
  } catch {
    throw new Malformed('its seal is broken');
  }
  const [{ sig, ...header }, said] = signedWords(decode(plain, ITEMS_MAX));
  if (!isSame(header.to, group)) throw new Malformed('the member signed it for another group');
  if (!await verify(sig, encode([header, said]), header.from)) throw new Malformed('the member that it names has not signed it');
  return { sender: header.from, seq: header.seq, deps: header.deps, code: said[0],
    content: said[0] === ACK ? new Uint8Array() : BYTES_CODES.includes(said[0]) ? said[1] : encode(said[1]), said: hex(digest(joined(SAID_LABEL, header.from, sig))) };
}

export function proofBytes(role, diallersHello, listenersHello) {
  return joined(text('upsycle link proof 1'), text(role), digest(diallersHello), digest(listenersHello));
}

// -- links --------------------------------------------------------------------------------------------------

// Read an invitation or a group's link, "upsycle:…", wherever in the text it stands.
export function readLink(given) {
  const found = /upsycle:([\w-]+)/.exec(given);
  if (!found) throw new Malformed('there is no link here: one begins with upsycle: and has letters and digits behind it');
  const base64 = found[1].replaceAll('-', '+').replaceAll('_', '/');
  let kind, fields;
  try {
    [kind, fields] = decode(Uint8Array.from(atob(base64), one => one.charCodeAt(0)));
  } catch {
    throw new Malformed('the link is not whole: copy all of it');
  }
  if (kind === 2) return { kind: 'group', group: groupOf(fields), urls: (fields.at ?? []).flatMap(([, at]) => webUrls(at)) };
  if (kind !== 3) throw new Malformed('that link is neither an invitation nor a group\'s');
  return { kind: 'invitation', router: fields.id, secret: fields.inv, expiry: fields.exp, rights: fields.gr, name: fields.name ?? null,
    urls: webUrls(fields.at), group: fields.grp ? groupOf(fields.grp) : null };
}

// A group's link, as text.
export function groupLink({ key, contentKey, seed, name }) {
  const bytes = encode([2, { grp: key, key: contentKey, seed, ...(name && { name }) }]);
  return `upsycle:${btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')}`;
}

function groupOf({ grp, key, name, seed }) {
  return { key: grp ?? null, contentKey: key, name: name ?? null, seed: seed ?? null };
}

function webUrls(at) {
  return (at[0] === 5 ? at[1] : [at]).filter(one => one[0] === 4).map(one => one[1]);
}
