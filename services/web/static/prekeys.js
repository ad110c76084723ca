// What is sealed to one alone (docs/apps.md): a prekey is 146 bytes that all may see, and whoever has them can seal to its owner.
// No node is asked: what was sealed travels by any way, as in a message of a pool. Keys are WebCrypto's and cannot be read out.
import { newKey, signWith, verify } from './router/keys.js';
import { Malformed, decode, digest, encode, hex, joined, text } from './router/wire.js';
import { xchacha20poly1305 } from './vendor/ciphers/chacha.js';

const PREKEY_LABEL = text('upsycle prekey 1'), BODY_LABEL = text('upsycle unicast body 1'), KEY_LABEL = text('upsycle unicast key 1');
const FOR_ONE = 2, UNICAST = 1, NONCE = new Uint8Array(24);

export class SealedError extends Error {}

const prekeyId = x25519 => digest(joined(PREKEY_LABEL, x25519)).slice(0, 8);

export async function newX25519() {
  const pair = await crypto.subtle.generateKey('X25519', false, ['deriveBits']);
  return { public: new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey)), secret: pair.privateKey };
}

async function sharedKey(secret, other, ephemeral, prekey) {
  const point = await crypto.subtle.importKey('raw', other, 'X25519', false, []);
  const shared = new Uint8Array(await crypto.subtle.deriveBits({ name: 'X25519', public: point }, secret, 256));
  return digest(joined(KEY_LABEL, shared, ephemeral, prekey));
}

// Read a prekey, and see that its owner has signed it.
async function readPrekey(bytes) {
  let found;
  try {
    found = decode(bytes);
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
  }
  const { id, pre, sig } = found ?? {};
  if (![[id, 32], [pre, 32], [sig, 64]].every(([one, size]) => one instanceof Uint8Array && one.length === size)) throw new SealedError('this is no prekey; ask the other for it again');
  if (!await verify(sig, joined(PREKEY_LABEL, pre), id)) throw new SealedError('the prekey is not signed by its owner; ask for it again');
  return { owner: id, x25519: pre };
}

export async function prekeyOf(key, x25519) {
  return encode({ id: key.public, pre: x25519.public, sig: await signWith(key.secret)(joined(PREKEY_LABEL, x25519.public)) });
}

// Seal to a prekey's owner, who learns the key that signs. `seq` counts what one key seals to one owner.
export async function sealTo(prekey, key, seq, content, ephemeral) {
  const { owner, x25519 } = await readPrekey(prekey), once = ephemeral ?? await newX25519();
  const header = { to: owner, seq, deps: [], from: key.public }, said = [UNICAST, content];
  const plain = encode([{ ...header, sig: await signWith(key.secret)(encode([header, said])) }, said]);
  const secret = await sharedKey(once.secret, x25519, once.public, x25519);
  return encode([FOR_ONE, prekeyId(x25519), once.public, xchacha20poly1305(secret, NONCE, joined(BODY_LABEL, owner)).encrypt(plain)]);
}

// The prekey of a key of one's own. `kept`: what an earlier one had as `kept`, which IndexedDB can hold; without it, all is new.
export class Prekeys {
  static async open(kept) {
    const { key = await newKey(), x25519 = await newX25519(), counts = new Map() } = kept ?? {};
    return new Prekeys({ key, x25519, counts }, await prekeyOf(key, x25519));
  }

  constructor(kept, bytes) {
    this.kept = kept;
    this.bytes = bytes;
  }

  get address() {
    return hex(this.kept.key.public);
  }

  async seal(prekey, content) {
    const { key, counts } = this.kept, { owner } = await readPrekey(prekey), seq = counts.get(hex(owner)) ?? 0;
    counts.set(hex(owner), seq + 1);
    return sealTo(prekey, key, seq, content);
  }

  // Open what was sealed to this prekey: {sender, content}; the sender has signed it.
  async open(body) {
    const { key, x25519 } = this.kept;
    try {
      const [kind, id, ephemeral, secret] = decode(body);
      if (kind !== FOR_ONE) throw new SealedError('this was not sealed to one');
      if (hex(id) !== hex(prekeyId(x25519.public))) throw new SealedError('this was sealed to another prekey');
      const shared = await sharedKey(x25519.secret, ephemeral, ephemeral, x25519.public);
      const [{ sig, ...header }, said] = decode(xchacha20poly1305(shared, NONCE, joined(BODY_LABEL, key.public)).decrypt(secret));
      if (hex(header.to) !== this.address || said[0] !== UNICAST) throw new SealedError('its sender has signed it for another');
      if (!await verify(sig, encode([header, said]), header.from)) throw new SealedError('the sender that it names has not signed it');
      return { sender: hex(header.from), content: said[1] };
    } catch (error) {
      throw error instanceof SealedError ? error : new SealedError(`what was sealed cannot be opened: ${error.message}`);
    }
  }
}
