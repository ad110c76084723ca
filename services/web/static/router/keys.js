// Keys: Ed25519 by WebCrypto. A key made here cannot be read out; a group's sending key comes from its link.
import { hex, joined } from './wire.js';

const PKCS8 = Uint8Array.of(0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20);
const VERIFIERS_MAX = 1024;

export async function newKey() {
  const pair = await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
  return { public: new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey)), secret: pair.privateKey };
}

export async function keyOfSeed(seed) {
  const bytes = joined(PKCS8, seed), [shown, secret] = await Promise.all([true, false].map(isShown => crypto.subtle.importKey('pkcs8', bytes, 'Ed25519', isShown, ['sign'])));
  const { x } = await crypto.subtle.exportKey('jwk', shown);
  return { public: Uint8Array.from(atob(x.replaceAll('-', '+').replaceAll('_', '/')), one => one.charCodeAt(0)), secret };
}

export function signWith(secret) {
  return bytes => crypto.subtle.sign('Ed25519', secret, bytes).then(found => new Uint8Array(found));
}

const verifiers = new Map();

export async function verify(signature, bytes, key) {
  const name = hex(key);
  let verifier = verifiers.get(name);
  if (!verifier) {
    try {
      verifier = await crypto.subtle.importKey('raw', key, 'Ed25519', false, ['verify']);
    } catch {
      return false;
    }
    if (verifiers.size >= VERIFIERS_MAX) verifiers.delete(verifiers.keys().next().value);
    verifiers.set(name, verifier);
  }
  return crypto.subtle.verify('Ed25519', verifier, signature, bytes);
}
