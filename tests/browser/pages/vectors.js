// The test vectors, made anew in a page: `differences` has a line for each that is another than Python's.
import { keyOfSeed, signWith, verify } from '../router/keys.js';
import * as wire from '../router/wire.js';

const { hex, unhex, encode, decode } = wire;
const differences = [];

function same(name, found, due) {
  if (found !== due) differences.push(`${name}: ${found} instead of ${due}`);
}

function bodyOf({ item, times }) {
  return wire.allJoined(Array.from({ length: times }, () => unhex(item)));
}

async function messages(found, keys, seal) {
  for (const [i, one] of found.entries()) {
    const signer = keys[one.src ?? one.grp], made = await seal(one, signWith(signer.secret));
    same(`${seal.name} ${i} id`, wire.messageId(made), one.id);
    const via = one.via === null ? null : encode(unhex(one.via));
    const whole = via ? wire.joined(Uint8Array.of(0x85), made.subarray(1), via) : made;
    same(`${seal.name} ${i} wire`, one.wire ? hex(whole) : hex(wire.digest(whole)), one.wire ?? one.wire_blake3);
    same(`${seal.name} ${i} frame`, hex(wire.joined(wire.frameHead(whole.length), whole)).slice(0, one.frame_head.length), one.frame_head);
    const read = wire.readMessage(whole);
    same(`${seal.name} ${i} signature`, hex(read.signature), one.signature);
    same(`${seal.name} ${i} read again`, `${read.id} ${read.via && hex(read.via)}`, `${one.id} ${one.via}`);
    if (!await verify(read.signature, read.signed, read.signer)) differences.push(`${seal.name} ${i}: the signature is not verified`);
  }
}

async function sealed(vectors, keys) {
  const { group, alice } = keys, { content_key, nonce } = vectors.secrets, { application } = vectors;
  same('content key id', hex(wire.contentKeyId(unhex(content_key))), application.content_key_id);
  const known = decode(unhex(application.plain.multicast)), [{ seq, deps }, [, content]] = known;
  const body = await wire.sealForGroup({ group: group.public, contentKey: unhex(content_key), from: alice.public, seq, deps, content, nonce: unhex(nonce) }, signWith(alice.secret));
  same('sealed', hex(body), application.sealed);
  const opened = await wire.openForGroup(unhex(application.sealed), group.public, unhex(content_key), verify);
  same('opened', `${hex(opened.sender)} ${opened.seq} ${hex(opened.content)}`, `${hex(alice.public)} ${seq} ${hex(content)}`);
}

function items(vectors) {
  for (const room of ['control', 'link']) {
    for (const [name, item] of Object.entries(vectors[room])) same(`${room} ${name}`, hex(encode(decode(unhex(item)))), item);
  }
  for (const role of ['dialler', 'listener']) {
    same(`proof ${role}`, hex(wire.proofBytes(role, wire.text('hello of the dialler'), wire.text('hello of the listener'))), vectors.proof[role]);
  }
}

function links(vectors, keys) {
  const sends = wire.readLink(vectors.grouplink.may_send), reads = wire.readLink(`see ${vectors.grouplink.read_only} there`);
  same('link', `${hex(sends.group.key)} ${hex(sends.group.contentKey)}`, `${hex(keys.group.public)} ${vectors.secrets.content_key}`);
  same('link to read', `${reads.group.seed}`, 'null');
}

function framing() {
  const parts = [0, 23, 24, 255, 256, 70000].map(size => new Uint8Array(size).fill(size & 255));
  const stream = wire.allJoined(parts.flatMap(part => [wire.frameHead(part.length), part]));
  for (const step of [1, 7, 1000, stream.length]) {
    const frames = new wire.Frames(70000), found = [];
    for (let at = 0; at < stream.length; at += step) found.push(...frames.take(stream.slice(at, at + step)).map(one => one.slice()));
    same(`frames by ${step}`, found.map(hex).join(' '), parts.map(hex).join(' '));
  }
  for (const bad of ['00', '5b', '5f', '5a00011171']) {
    try {
      new wire.Frames(70000).take(unhex(bad));
      differences.push(`the head ${bad} was taken`);
    } catch (error) {
      if (!(error instanceof wire.Malformed)) throw error;
    }
  }
}

async function all() {
  const vectors = await (await fetch('../vectors/messages.json')).json(), keys = {};
  for (const [name, { seed, public: key }] of Object.entries(vectors.keys)) {
    keys[name] = await keyOfSeed(unhex(seed));
    same(`key of ${name}`, hex(keys[name].public), key);
  }
  await messages(vectors.unicast, keys, function unicast(one, sign) {
    return wire.sealUnicast(keys[one.src].public, keys[one.dst].public, bodyOf(one.body), one, sign);
  });
  await messages(vectors.multicast, keys, function multicast(one, sign) {
    return wire.sealMulticast(keys[one.grp].public, bodyOf(one.body), { ...one, sn: one.sn.map(unhex) }, sign);
  });
  await sealed(vectors, keys);
  items(vectors);
  links(vectors, keys);
  framing();
  return differences;
}

window.vectors = all();
