// Targets in 32 bits, and priorities in doubles, in the reference's order of operations, so that they are equal to the last bit.

export const LIFE_S = 600, BACKDATED_S = 5, NEVER = 0xffff;
const LOCAL_TARGET = (1n << 248n) - 1n, ALL = (1n << 256n) - 1n, FRACTION = 1 << 20, NOMINAL_BYTES = 100;

export function targetOf(bits) {
  const exponent = bits >>> 24, mantissa = BigInt(bits & 0x7fffff);
  return exponent <= 3 ? mantissa >> BigInt(8 * (3 - exponent)) : mantissa << BigInt(8 * (exponent - 3)) & ALL;
}

export function bitsOf(target) {
  let exponent = (target ? target.toString(2).length : 0) + 7 >> 3;
  let mantissa = exponent <= 3 ? target << BigInt(8 * (3 - exponent)) : target >> BigInt(8 * (exponent - 3));
  if (mantissa & 0x800000n) {
    mantissa >>= 8n;
    exponent += 1;
  }
  return (Number(mantissa) | exponent << 24) >>> 0;
}

export function initialPriority(bits, length) {
  const target = targetOf(bits), found = target ? Number(LOCAL_TARGET) / Number(target) : Infinity;
  return length > NOMINAL_BYTES ? found / length * NOMINAL_BYTES : found;
}

export function aged(initial, age) {
  return initial - initial / LIFE_S * (age >= 0 ? age : Number(BigInt.asUintN(64, BigInt(age))));
}

// Bits of at least this priority. `harderBy`: more work, in parts of 65,536, so that equal messages of one second differ.
export function bitsFor(priority, length, harderBy = 0) {
  if (!(priority >= 1 && priority < Infinity)) throw new RangeError(`the priority ${priority} is out of range; it is at least 1`);
  const wanted = length > NOMINAL_BYTES ? priority * length / NOMINAL_BYTES : priority;
  const target = LOCAL_TARGET / BigInt(Math.trunc(wanted * FRACTION)) * BigInt(FRACTION);
  let bits = bitsOf(target * BigInt((1 << 16) - harderBy) >> 16n);
  while (initialPriority(bits, length) < priority) bits -= 1;
  return bits;
}

export const bornAt = (now, life) => now - Math.max(0, Math.min(BACKDATED_S, LIFE_S - 1 - life));

// The initial priority with which a message made now stays above the line for `life` seconds.
export function priorityFor(life, line) {
  if (life >= LIFE_S) throw new RangeError(`no work makes a message live for ${life} s: at ${LIFE_S} s the priority of each is used up; ask for less`);
  return line / (1 - (life - bornAt(0, life)) / LIFE_S);
}

export const attemptsFor = bits => 2 ** 256 / Number(targetOf(bits));
