// A message's bytes: what is hashed for its work, and its id.
import { ripemd160 } from '../vendor/hashes/legacy.js';
import { NEVER, targetOf } from './priority.js';
import { sha256 } from './sha256.js';

export const hex = bytes => Array.from(bytes, one => one.toString(16).padStart(2, '0')).join('');
export const unhex = text => Uint8Array.from(text.match(/../g) ?? [], pair => parseInt(pair, 16));
export const secretHash = secret => ripemd160(sha256(secret));

function numberOf(value, width) {
  return Uint8Array.from({ length: width }, (_, i) => Number(BigInt(value) >> BigInt(8 * i) & 0xffn));
}

function joined(...parts) {
  const all = new Uint8Array(parts.reduce((size, one) => size + one.length, 0));
  let at = 0;
  for (const one of parts) {
    all.set(one, at);
    at += one.length;
  }
  return all;
}

function vector(bytes) {
  const size = bytes.length;
  const head = size < 253 ? numberOf(size, 1) : size < 65536 ? joined(Uint8Array.of(253), numberOf(size, 2)) : joined(Uint8Array.of(254), numberOf(size, 4));
  return joined(head, bytes);
}

// The 32 bytes to which the nonce is appended. Of the message: data and rescindHash as hex, as over HTTP.
export function stage1({ data, created, difficultyBits, expiration = NEVER, rescindHash = '00'.repeat(20) }) {
  return sha256(joined(vector(unhex(data)), numberOf(created, 8), unhex(rescindHash), numberOf(expiration, 2), numberOf(difficultyBits, 4)));
}

export const rawId = message => sha256(sha256(joined(stage1(message), unhex(message.nonce))));
export const shownId = raw => hex(raw.slice().reverse());
export const replyPrefix = shown => unhex(shown).reverse().slice(0, 16);

export function targetWords(bits) {
  const digits = targetOf(bits).toString(16).padStart(64, '0');
  return Uint32Array.from({ length: 8 }, (_, i) => parseInt(digits.slice(8 * i, 8 * i + 8), 16));
}

// Whether a message is the one of its hash, and its work is done.
export function isGenuine(message) {
  const shown = shownId(rawId(message));
  return shown === message.hash && BigInt(`0x${shown}`) < targetOf(message.difficultyBits);
}
