// Deterministic CBOR (RFC 8949 §4.2.1) of plain values, as router/core/wire/codec.py has it: whole numbers, bytes, text, true, false,
// null, arrays, and maps whose keys are text. No tag, no float, nothing longer than necessary, nothing deeper than DEPTH_MAX.
const DEPTH_MAX = 16, SCRATCH_BYTES = 1 << 16;
const UINT = 0, NEGATIVE = 1, BYTES = 2, TEXT = 3, ARRAY = 4, MAP = 5, SIMPLE = 7;
const FALSE = 20, TRUE = 21, NULL = 22;
const TWO_32 = 2 ** 32, ASCII = /^[\0-\x7f]*$/;
const toBytes = new TextEncoder(), toText = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export class NotCbor extends Error {}

// -- writing ------------------------------------------------------------------------------------------------

let out = new Uint8Array(SCRATCH_BYTES), view = new DataView(out.buffer), end = 0;

export function encode(value) {
  end = 0;
  write(value, 0);
  const found = out.slice(0, end);
  if (out.length > SCRATCH_BYTES) grow(SCRATCH_BYTES);
  return found;
}

function grow(size) {
  const old = out.subarray(0, Math.min(end, size));
  out = new Uint8Array(size);
  out.set(old);
  view = new DataView(out.buffer);
}

function room(size) {
  if (end + size > out.length) grow(2 * (end + size));
}

function head(major, size) {
  room(9);
  const kind = major << 5;
  if (size < 24) out[end++] = kind | Number(size);
  else if (size < 256) { out[end] = kind | 24; out[end + 1] = Number(size); end += 2; }
  else if (size < 65536) { out[end] = kind | 25; view.setUint16(end + 1, Number(size)); end += 3; }
  else if (size < TWO_32) { out[end] = kind | 26; view.setUint32(end + 1, Number(size)); end += 5; }
  else { out[end] = kind | 27; view.setBigUint64(end + 1, BigInt(size)); end += 9; }
}

function writeBytes(major, bytes) {
  head(major, bytes.length);
  room(bytes.length);
  out.set(bytes, end);
  end += bytes.length;
}

function writeText(words) {
  if (!ASCII.test(words)) return writeBytes(TEXT, toBytes.encode(words));
  head(TEXT, words.length);
  room(words.length);
  for (let i = 0; i < words.length; i++) out[end++] = words.charCodeAt(i);
}

function write(value, depth) {
  if (depth > DEPTH_MAX) throw new NotCbor(`nothing is deeper than ${DEPTH_MAX}`);
  if (value instanceof Uint8Array) return writeBytes(BYTES, value);
  switch (typeof value) {
    case 'number':
      if (!Number.isSafeInteger(value)) throw new NotCbor(`${value} is no whole number that is exact`);
      return value < 0 ? head(NEGATIVE, -1 - value) : head(UINT, value);
    case 'bigint':
      if (BigInt.asUintN(64, value < 0 ? -1n - value : value) !== (value < 0 ? -1n - value : value)) throw new NotCbor(`${value} has more than 64 bits`);
      return value < 0 ? head(NEGATIVE, -1n - value) : head(UINT, value);
    case 'string': return writeText(value);
    case 'boolean': return head(SIMPLE, value ? TRUE : FALSE);
    case 'object':
      if (value === null) return head(SIMPLE, NULL);
      if (!Array.isArray(value)) return writeMap(value, depth);
      head(ARRAY, value.length);
      for (const one of value) write(one, depth + 1);
      return undefined;
    default: throw new NotCbor(`a ${typeof value} has no place in a message`);
  }
}

function writeMap(map, depth) {
  const keys = Object.keys(map).sort(inOrder);
  head(MAP, keys.length);
  for (const key of keys) {
    writeText(key);
    write(map[key], depth + 1);
  }
}

// By the bytes of their encoding: the shorter first.
function inOrder(a, b) {
  if (ASCII.test(a) && ASCII.test(b)) return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);
  const [x, y] = [toBytes.encode(a), toBytes.encode(b)];
  let at = 0;
  while (at < x.length && x[at] === y[at]) at++;
  return x.length - y.length || (x[at] ?? 0) - (y[at] ?? 0);
}

// -- reading ------------------------------------------------------------------------------------------------

let data, at, left;

// Read one item, and nothing behind it; it may hold `most` items, with itself and the keys of maps.
export function decode(bytes, most = Infinity) {
  data = bytes;
  at = 0;
  left = most;
  try {
    const found = item(0);
    if (at !== bytes.length) throw new NotCbor(`${bytes.length - at} bytes follow the item`);
    return found;
  } finally {
    data = undefined;
  }
}

function item(depth) {
  if (depth > DEPTH_MAX) throw new NotCbor(`nothing is deeper than ${DEPTH_MAX}`);
  if (--left < 0) throw new NotCbor('it holds more items than are allowed');
  const first = byte(), size = length(first & 31);
  switch (first >> 5) {
    case UINT: return size;
    case NEGATIVE: return typeof size === 'bigint' || size === Number.MAX_SAFE_INTEGER ? -1n - BigInt(size) : -1 - size;
    case BYTES: return data.slice(at, past(size));
    case TEXT: return text(at, past(size));
    case ARRAY: return array(size, depth);
    case MAP: return map(size, depth);
    case SIMPLE:
      if (first === 0xe0 + FALSE) return false;
      if (first === 0xe0 + TRUE) return true;
      if (first === 0xe0 + NULL) return null;
  }
  throw new NotCbor(`a value of the kind ${first.toString(16)} has no place in a message`);
}

function byte() {
  if (at >= data.length) throw new NotCbor('it ends before the item does');
  return data[at++];
}

const LEAST = [24, 256, 65536, TWO_32];

function length(short) {
  if (short < 24) return short;
  if (short > 27) throw new NotCbor('a length without an end');
  let size = 0;
  const width = 1 << (short - 24), until = at + width;
  while (at < until) size = size * 256 + byte();
  if (size > Number.MAX_SAFE_INTEGER) size = new DataView(data.buffer, data.byteOffset + at - 8, 8).getBigUint64(0);
  if (size < LEAST[short - 24]) throw new NotCbor('a number is longer than necessary');
  return size;
}

// Go on behind so many bytes; return where that is.
function past(size) {
  if (size > data.length - at) throw new NotCbor('it ends before the item does');
  return at += size;
}

function text(from, end) {
  let found = '';
  for (let i = from; i < end; i++) {
    if (data[i] > 127 || i > from + 32) return toText.decode(data.subarray(from, end));
    found += String.fromCharCode(data[i]);
  }
  return found;
}

function array(size, depth) {
  const found = [];
  for (let i = 0; i < size; i++) found.push(item(depth + 1));
  return found;
}

function map(size, depth) {
  const found = {};
  for (let i = 0, before; i < size; i++) {
    const key = item(depth + 1);
    if (typeof key !== 'string') throw new NotCbor('the keys of a map are text');
    if (i && inOrder(before, key) >= 0) throw new NotCbor('the keys of a map stand once, in their order');
    const value = item(depth + 1);
    if (key === '__proto__') Object.defineProperty(found, key, { value, enumerable: true, configurable: true, writable: true });
    else found[key] = value;
    before = key;
  }
  return found;
}
