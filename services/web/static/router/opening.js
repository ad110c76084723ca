// Opens what comes: a node's own words, a unicast, a multicast's seal and the member's signed words in it.
import { UNICASTS } from './inbox.js';
import { verify } from './keys.js';
import { Malformed, decode, hex, openForGroup, readMessage } from './wire.js';

// `groups`: by their names; resolve with what the loops are given, or with the `error` for which it cannot be.
export async function open(wire, router, groups) {
  let from = { address: UNICASTS };
  try {
    const { id, type, group, exp, ttl, via, ...message } = readMessage(wire), isUnicast = type === 0;
    from = { id, address: isUnicast ? UNICASTS : hex(group), exp, ttl, via, at: Date.now(), size: wire.length, deps: [], said: null, source: null, sender: null, seq: null };
    return { ...from, ...await (isUnicast ? unicast(message, router) : multicast(message, groups.get(from.address)?.kept)) };
  } catch (error) {
    return { ...from, error };
  }
}

async function unicast({ source, signature, signed, body }, router) {
  if (hex(source) === hex(router)) return { control: decode(body) };
  if (!await verify(signature, signed, source)) throw new Malformed('its signature does not fit');
  return { source, body };
}

async function multicast({ body }, kept) {
  if (!kept || kept.left) throw new Malformed('this app has left the group');
  if (kept.isRaw) return { body };
  const { sender, seq, code, content, deps, said } = await openForGroup(body, kept.key, kept.contentKey, verify);
  return { sender: hex(sender), seq, code, body: content, deps: deps.map(hex), said };
}
