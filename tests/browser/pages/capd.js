// The vectors of CAPD made anew in a page, its solver, and a wallet that trades over the pool of a node.
import * as capd from '../capd.js';
import { hex, rawId, secretHash, shownId, stage1, unhex } from '../solver/message.js';
import * as work from '../solver/priority.js';
import { sha256, begin, compress } from '../solver/sha256.js';
import { PART, tried } from '../solver/tried.js';
import { Prekeys, prekeyOf, sealTo } from '../prekeys.js';
import { keyOfSeed, newKey, signWith } from '../router/keys.js';
import * as router from '../router.js';

const differences = [], bits = text => parseInt(text, 16), digits = target => target.toString(16).padStart(64, '0');

function same(name, found, due) {
  if (found !== due) differences.push(`${name}: ${found} instead of ${due}`);
}

function message(one) {
  const data = one.data_pattern ? one.data_pattern.repeat_byte.toString(16).padStart(2, '0').repeat(one.data_pattern.length) : one.data;
  return { data, created: one.create_time, difficultyBits: bits(one.difficulty_bits), nonce: one.nonce, expiration: one.expiration, rescindHash: one.rescind_hash };
}

function number(value) {
  return Number.isNaN(value) || value === Infinity ? 'nan' : value;
}

const vectors = async name => (await fetch(`../vectors/capd/${name}.json`)).json();

async function all() {
  for (const one of (await vectors('messages')).cases) {
    const made = message(one), size = made.data.length / 2, initial = work.initialPriority(made.difficultyBits, size);
    same(`${one.name} stage 1`, hex(stage1(made)), one.stage1);
    same(`${one.name} id`, hex(rawId(made)), one.id_raw);
    same(`${one.name} shown`, shownId(rawId(made)), one.id_display);
    same(`${one.name} target`, digits(work.targetOf(made.difficultyBits)), one.target_display);
    same(`${one.name} work`, capd.isGenuine({ ...made, hash: one.id_display }), one.pow_ok);
    same(`${one.name} reply`, hex(capd.replyPrefix(one.id_display)), one.reply_prefix_raw16);
    if (one.initial_priority !== 'nan') {
      same(`${one.name} priority`, initial, one.initial_priority);
      for (const [age, due] of Object.entries(one.priority_at_age)) same(`${one.name} at ${age}`, work.aged(initial, Number(age)), due);
    }
  }
  const compact = await vectors('compact');
  for (const { target, bits: due, back } of compact.encode) {
    same(`bits of ${target}`, work.bitsOf(BigInt(`0x${target}`)), bits(due));
    same(`back of ${due}`, digits(work.targetOf(bits(due))), back);
  }
  for (const { bits: given, target } of compact.decode) same(`target of ${given}`, digits(work.targetOf(bits(given))), target);
  const { rows, future } = await vectors('priority');
  for (const [given, size, age, due] of [...rows, ...future.rows]) same(`${given} ${size} ${age}`, work.aged(work.initialPriority(bits(given), size), age), due);
  for (const size of [0, 55, 56, 63, 64, 65, 1000]) {
    const data = new Uint8Array(size).fill(size);
    same(`sha256 of ${size}`, hex(sha256(data)), hex(new Uint8Array(await crypto.subtle.digest('SHA-256', data))));
  }
  return differences;
}

const X25519_PKCS8 = unhex('302e020100300506032b656e04220420');

async function x25519OfSeed(seed) {
  const bytes = Uint8Array.of(...X25519_PKCS8, ...unhex(seed)), shown = await crypto.subtle.importKey('pkcs8', bytes, 'X25519', true, ['deriveBits']);
  const { x } = await crypto.subtle.exportKey('jwk', shown);
  return { public: Uint8Array.from(atob(x.replaceAll('-', '+').replaceAll('_', '/')), one => one.charCodeAt(0)), secret: shown };
}

// What Python seals to a prekey, and its prekey, are made and opened here.
async function sealed() {
  const { keys, secrets, application } = await (await fetch('../vectors/messages.json')).json(), { alice, bob } = keys;
  const [from, to] = await Promise.all([alice, bob].map(one => keyOfSeed(unhex(one.seed)))), x25519 = await x25519OfSeed(secrets.x25519_seed);
  const mine = await Prekeys.open({ key: to, x25519 }), opened = await mine.open(unhex(application.sealed_to_bob));
  same('prekey', hex(await prekeyOf(to, x25519)), application.prekey);
  same('sender', opened.sender, alice.public);
  same('sealed', hex(await sealTo(unhex(application.prekey), from, 0, opened.content, await x25519OfSeed(secrets.ephemeral_seed))), application.sealed_to_bob);
  const other = await Prekeys.open(), body = await other.seal(mine.bytes, unhex('00ff'));
  same('round', hex((await mine.open(body)).content), '00ff');
  for (const [name, wrong] of [['cut', body.slice(0, -1)], ['changed', body.map((one, at) => at === body.length - 1 ? one ^ 1 : one)], ['nothing', new Uint8Array(0)]]) {
    same(`${name} is refused`, await mine.open(wrong).then(() => 'opened', error => error.constructor.name), 'SealedError');
  }
  same('another prekey', await other.open(body).catch(error => error.message), 'this was sealed to another prekey');
  return differences;
}

// The nonces of these drafts; each is what Python finds.
const solved = (drafts, workers) => Promise.all(drafts.map(draft => capd.solve(draft, { workers })));

// Nonces a millisecond, the best of many short rounds: of the solver's own loop, and of two bare compressions.
function rates(rounds = 60, count = PART >> 3) {
  const target = new Uint32Array(8), stage = new Uint8Array(32).fill(7), w = new Int32Array(64), state = new Int32Array(8);
  const solver = () => tried(stage, target, 16842752, count), bare = () => {
    for (let i = 0; i < count; i++) {
      w[8] = i;
      begin(state);
      compress(state, w);
      begin(state);
      compress(state, w);
    }
  };
  const best = [0, 0];
  for (let round = 0; round < rounds; round++) {
    for (const [at, run] of [solver, bare].entries()) {
      const began = performance.now();
      run();
      best[at] = Math.max(best[at], count / (performance.now() - began));
    }
  }
  return best;
}

async function cancelled() {
  const control = new AbortController(), draft = { data: '', created: 0, difficultyBits: 0x03000001 };
  const solving = capd.solve(draft, { signal: control.signal, onProgress: () => control.abort(new Error('enough')) });
  return solving.catch(error => error.message);
}

// -- two wallets ------------------------------------------------------------------------------------------------------------

const told = { away: [], up: 0, hits: [] };

// Offer, as examples/wallets.py does: the offer has a prekey, the reply a sealed link, the rest is said in its group.
async function trade({ site, invitation, offer }) {
  const pool = new capd.Pool(`${site}/capd/`), mine = await Prekeys.open(), node = await router.connect({ name: 'wallet', invitation });
  const data = Uint8Array.of(...capd.text('XCH\x01'), mine.bytes.length >> 8, mine.bytes.length & 255, ...mine.bytes, ...capd.text(offer));
  const posted = await pool.offer(data, { rescindable: true }), control = new AbortController();
  for await (const hit of pool.watch({ prefix: capd.replyPrefix(posted.hash), since: '00'.repeat(32), signal: control.signal })) {
    const { sender, content } = await mine.open(hit.reply), group = await node.join(router.words(content));
    await group.publish(router.text('page: agreed'));
    let heard;
    for await (const said of group) {
      heard = { sender: said.sender, words: router.words(said.body) };
      if (heard.sender === sender) break;
    }
    const rescinded = await pool.rescind(posted.hash, posted.secret), { state } = await pool.get(posted.hash);
    control.abort();
    return { heard: heard.words, rescinded, hash: posted.hash, state, left: (await pool.query({ prefix: capd.text('XCH') })).count };
  }
}

// Find, as examples/wallets.py does: take the first offer, and agree with its sender in a group of one's own. One key signs what is
// sealed and what is said.
async function find({ site, invitation }) {
  const pool = new capd.Pool(`${site}/capd/`), key = await newKey(), mine = await Prekeys.open({ key }), control = new AbortController();
  const node = await router.connect({ name: 'finder', invitation, signer: { public: key.public, sign: signWith(key.secret) } });
  const value = Uint8Array.of(...capd.text('XCH\x01')), mask = Uint8Array.of(255, 255, 255, 1);
  for await (const hit of pool.watch({ value, mask, since: '00'.repeat(32), signal: control.signal })) {
    const end = 6 + (hit.data[4] << 8 | hit.data[5]), link = await router.newGroup('swap'), group = await node.join(link), heard = group.messages();
    await pool.reply(hit, await mine.seal(hit.data.slice(6, end), capd.text(link)));
    for await (const said of heard) {
      await group.publish(router.text('page: done'));
      control.abort();
      return { took: capd.words(hit.data.slice(end)), heard: router.words(said.body) };
    }
  }
}

async function watches({ site, prefix }) {
  const pool = new capd.Pool(`${site}/capd/`);
  for await (const hit of pool.watch({ prefix, onUp: () => { told.up += 1; }, onAway: said => told.away.push(said) })) told.hits.push(capd.words(hit.data));
}

async function refusal(site, act) {
  try {
    return await act(new capd.Pool(`${site}/capd/`));
  } catch (error) {
    return [error.name, error.reason, error.message];
  }
}

Object.assign(window, { told, trade, find, watches, refusal });
Object.assign(window, { capd, vectors: all, sealed, solved, rates, cancelled, secretHashOf: secret => hex(secretHash(unhex(secret))) });
