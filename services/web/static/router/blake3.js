// BLAKE3 of bytes, as messages are named by it: the plain hash, of 32 bytes. A library's took a third of all work on a message.
const CHUNK = 1024, BLOCK = 64;
const CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8;
const IV = Int32Array.of(0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19);
const PERMUTED = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
// Which words of the block each of the seven rounds takes.
const S = new Uint8Array(7 * 16);
for (let i = 0; i < S.length; i++) S[i] = i < 16 ? i : S[i - i % 16 - 16 + PERMUTED[i % 16]];

const m = new Int32Array(16);

// Mix the block `m` into the chaining value.
function compress(cv, counter, size, flags) {
  let v0 = cv[0], v1 = cv[1], v2 = cv[2], v3 = cv[3], v4 = cv[4], v5 = cv[5], v6 = cv[6], v7 = cv[7];
  let v8 = IV[0], v9 = IV[1], v10 = IV[2], v11 = IV[3], v12 = counter, v13 = 0, v14 = size, v15 = flags;
  for (let at = 0; at < S.length; at += 16) {
    v0 = (v0 + v4 + m[S[at + 0]]) | 0; v12 ^= v0; v12 = (v12 >>> 16) | (v12 << 16); v8 = (v8 + v12) | 0; v4 ^= v8; v4 = (v4 >>> 12) | (v4 << 20);
    v0 = (v0 + v4 + m[S[at + 1]]) | 0; v12 ^= v0; v12 = (v12 >>> 8) | (v12 << 24); v8 = (v8 + v12) | 0; v4 ^= v8; v4 = (v4 >>> 7) | (v4 << 25);
    v1 = (v1 + v5 + m[S[at + 2]]) | 0; v13 ^= v1; v13 = (v13 >>> 16) | (v13 << 16); v9 = (v9 + v13) | 0; v5 ^= v9; v5 = (v5 >>> 12) | (v5 << 20);
    v1 = (v1 + v5 + m[S[at + 3]]) | 0; v13 ^= v1; v13 = (v13 >>> 8) | (v13 << 24); v9 = (v9 + v13) | 0; v5 ^= v9; v5 = (v5 >>> 7) | (v5 << 25);
    v2 = (v2 + v6 + m[S[at + 4]]) | 0; v14 ^= v2; v14 = (v14 >>> 16) | (v14 << 16); v10 = (v10 + v14) | 0; v6 ^= v10; v6 = (v6 >>> 12) | (v6 << 20);
    v2 = (v2 + v6 + m[S[at + 5]]) | 0; v14 ^= v2; v14 = (v14 >>> 8) | (v14 << 24); v10 = (v10 + v14) | 0; v6 ^= v10; v6 = (v6 >>> 7) | (v6 << 25);
    v3 = (v3 + v7 + m[S[at + 6]]) | 0; v15 ^= v3; v15 = (v15 >>> 16) | (v15 << 16); v11 = (v11 + v15) | 0; v7 ^= v11; v7 = (v7 >>> 12) | (v7 << 20);
    v3 = (v3 + v7 + m[S[at + 7]]) | 0; v15 ^= v3; v15 = (v15 >>> 8) | (v15 << 24); v11 = (v11 + v15) | 0; v7 ^= v11; v7 = (v7 >>> 7) | (v7 << 25);
    v0 = (v0 + v5 + m[S[at + 8]]) | 0; v15 ^= v0; v15 = (v15 >>> 16) | (v15 << 16); v10 = (v10 + v15) | 0; v5 ^= v10; v5 = (v5 >>> 12) | (v5 << 20);
    v0 = (v0 + v5 + m[S[at + 9]]) | 0; v15 ^= v0; v15 = (v15 >>> 8) | (v15 << 24); v10 = (v10 + v15) | 0; v5 ^= v10; v5 = (v5 >>> 7) | (v5 << 25);
    v1 = (v1 + v6 + m[S[at + 10]]) | 0; v12 ^= v1; v12 = (v12 >>> 16) | (v12 << 16); v11 = (v11 + v12) | 0; v6 ^= v11; v6 = (v6 >>> 12) | (v6 << 20);
    v1 = (v1 + v6 + m[S[at + 11]]) | 0; v12 ^= v1; v12 = (v12 >>> 8) | (v12 << 24); v11 = (v11 + v12) | 0; v6 ^= v11; v6 = (v6 >>> 7) | (v6 << 25);
    v2 = (v2 + v7 + m[S[at + 12]]) | 0; v13 ^= v2; v13 = (v13 >>> 16) | (v13 << 16); v8 = (v8 + v13) | 0; v7 ^= v8; v7 = (v7 >>> 12) | (v7 << 20);
    v2 = (v2 + v7 + m[S[at + 13]]) | 0; v13 ^= v2; v13 = (v13 >>> 8) | (v13 << 24); v8 = (v8 + v13) | 0; v7 ^= v8; v7 = (v7 >>> 7) | (v7 << 25);
    v3 = (v3 + v4 + m[S[at + 14]]) | 0; v14 ^= v3; v14 = (v14 >>> 16) | (v14 << 16); v9 = (v9 + v14) | 0; v4 ^= v9; v4 = (v4 >>> 12) | (v4 << 20);
    v3 = (v3 + v4 + m[S[at + 15]]) | 0; v14 ^= v3; v14 = (v14 >>> 8) | (v14 << 24); v9 = (v9 + v14) | 0; v4 ^= v9; v4 = (v4 >>> 7) | (v4 << 25);
  }
  cv[0] = v0 ^ v8; cv[1] = v1 ^ v9; cv[2] = v2 ^ v10; cv[3] = v3 ^ v11; cv[4] = v4 ^ v12; cv[5] = v5 ^ v13; cv[6] = v6 ^ v14; cv[7] = v7 ^ v15;
}

// The words of a block; bytes beyond `end` are zero.
function load(bytes, at, end) {
  if (at + BLOCK <= end) {
    for (let i = 0; i < 16; i++, at += 4) m[i] = bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | bytes[at + 3] << 24;
    return;
  }
  m.fill(0);
  for (let i = 0; at < end; i++, at++) m[i >> 2] |= bytes[at] << 8 * (i & 3);
}

function ofChunk(bytes, from, end, number, flags) {
  const cv = IV.slice();
  let at = from, start = CHUNK_START;
  for (; end - at > BLOCK; at += BLOCK, start = 0) {
    load(bytes, at, end);
    compress(cv, number, BLOCK, start);
  }
  load(bytes, at, end);
  compress(cv, number, end - at, start | CHUNK_END | flags);
  return cv;
}

// The left part of a tree is the largest that is full.
function ofTree(bytes, from, end, number, flags) {
  if (end - from <= CHUNK) return ofChunk(bytes, from, end, number, flags);
  let size = CHUNK;
  while (2 * size < end - from) size *= 2;
  const left = ofTree(bytes, from, from + size, number, 0), right = ofTree(bytes, from + size, end, number + size / CHUNK, 0);
  const cv = IV.slice();
  m.set(left);
  m.set(right, 8);
  compress(cv, 0, BLOCK, PARENT | flags);
  return cv;
}

export function blake3(bytes) {
  const cv = ofTree(bytes, 0, bytes.length, 0, ROOT), found = new Uint8Array(32);
  for (let i = 0; i < 32; i++) found[i] = cv[i >> 2] >>> 8 * (i & 3);
  return found;
}
