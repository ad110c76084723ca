// Nonces are tried as the reference tries them: all of one byte, then of two, three and so on, each a little-endian
// counter. Each so has a place in one sequence, which workers share in parts.
import { begin, compress } from './sha256.js';

export const PART = 1 << 16;
const swapped = word => (word << 24 | (word & 0xff00) << 8 | word >>> 8 & 0xff00 | word >>> 24) >>> 0;
const bytesOf = (number, width) => Uint8Array.from({ length: width }, (_, i) => Math.floor(number / 256 ** i) % 256);

// Return the first nonce at these places that does the work, null if there is none. `target`: 8 words, the most
// significant first.
export function tried(stage1, target, first, count = PART) {
  const view = new DataView(stage1.buffer, stage1.byteOffset, 32), stage = Int32Array.from({ length: 8 }, (_, i) => view.getInt32(4 * i));
  for (let width = 1, start = 0; count > 0 && width <= 6; start += 256 ** width, width++) {
    const here = Math.min(count, start + 256 ** width - first);
    if (here <= 0) continue;
    const found = triedOfWidth(stage, target, first - start, here, width);
    if (found !== null) return bytesOf(found, width);
    first += here;
    count -= here;
  }
  return null;
}

function triedOfWidth(stage, target, from, count, width) {
  const w = new Int32Array(64), once = new Int32Array(8), twice = new Int32Array(8), top = target[0];
  const shift = 8 * (width % 4);
  for (let number = from, end = from + count; number < end; number++) {
    for (let i = 0; i < 8; i++) w[i] = stage[i];
    // The nonce, the bit behind it, and the length of all in bits.
    const few = swapped(number | 0);
    w[8] = width < 4 ? few | 0x80000000 >>> shift : few;
    w[9] = width >= 4 ? swapped(Math.floor(number / 0x100000000)) | 0x80000000 >>> shift : 0;
    w[10] = w[11] = w[12] = w[13] = w[14] = 0;
    w[15] = 256 + 8 * width;
    begin(once);
    compress(once, w);
    for (let i = 0; i < 8; i++) w[i] = once[i];
    w[8] = 0x80000000;
    w[9] = w[10] = w[11] = w[12] = w[13] = w[14] = 0;
    w[15] = 256;
    begin(twice);
    compress(twice, w);
    if (swapped(twice[7]) <= top && isBelow(twice, target)) return number;
  }
  return null;
}

function isBelow(hash, target) {
  for (let i = 0; i < 8; i++) {
    const word = swapped(hash[7 - i]);
    if (word !== target[i]) return word < target[i];
  }
  return false;
}
