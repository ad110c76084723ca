// A chat in a group; its messages are those of examples/chat.py: "NAME: what is said".
import { EDITION, cannotBegin, connect, readLink, rightsOf, text, words } from '../router.js';
import { because, counted, howFar, told } from './fates.js';
import { openHistory } from './history.js';

const $ = id => document.getElementById(id);
const NAME_KEPT = 'chat name', GROUP_KEPT = 'chat group';
const LINK = /https?:\/\/[^\s<>"]+[^\s<>".,;:!?)\]]/g;
const ASKED_AT_ONCE = 200, AWAITED_AT_ONCE = 8, UNTOLD_MS = 2000, ASKED_FOR_MS = 7 * 24 * 3600 * 1000, EARLY_MAX = 1000;
const UNINVITED = 'Nobody has invited this browser yet: open the link that you were sent, all of it.';
// `early`: how far a message came that another tab has said, before its line is here; `saidEarly`: such lines, until what was kept is shown.
const shown = new Map(), early = new Map(), saidEarly = [], others = new BroadcastChannel('chat lines');
let isListed = false, isCatchingUp = false, untoldTimer;
const isNear = () => innerHeight + scrollY > document.documentElement.scrollHeight - 120;
let letGo = () => {};
let node, group, history, me, unread = 0, lastDay = '', lastWho = '', isAsking = false, isOut = false;

function notice(sentence) {
  $('notice').textContent = sentence;
  $('notice').hidden = !sentence;
}

function title() {
  document.title = `${unread ? `(${unread}) ` : ''}${group?.name ?? 'Chat'}`;
}

function element(name, className, words = '') {
  return Object.assign(document.createElement(name), { className, textContent: words });
}

// -- lines --------------------------------------------------------------------------------------------------

function withLinks(target, words) {
  let at = 0;
  for (const found of words.matchAll(LINK)) {
    const link = Object.assign(element('a', '', found[0]), { href: found[0], rel: 'noreferrer noopener', target: '_blank' });
    target.append(words.slice(at, found.index), link);
    at = found.index + found[0].length;
  }
  target.append(words.slice(at));
}

// A line of its own between what is said: a day, or that something is missing.
function between(className, words) {
  $('lines').append(element('li', className, words));
  lastWho = '';
}

function show(line) {
  if (shown.has(line.id) || line.group !== group.key) return;
  const day = new Date(line.at).toLocaleDateString(undefined, { dateStyle: 'full' }), follows = isNear();
  if (day !== lastDay) between('day', lastDay = day);
  if (line.gap) between('gap', 'Something that was said before this is not here.');
  const item = element('li', line.isMine ? 'line mine' : 'line'), body = element('p', ''), split = /^([^\n:]{1,40}): ([^]*)$/.exec(line.text);
  const who = line.isMine ? me : split?.[1] ?? '', time = element('time', '', new Date(line.at).toLocaleTimeString(undefined, { timeStyle: 'short' }));
  if (who === lastWho) item.classList.add('more');
  if (split && !line.isMine) body.append(element('span', 'who', `${split[1]}: `));
  withLinks(body, split ? split[2] : line.text);
  item.append(body, line.isMine ? ownFoot(line, time) : time);
  $('lines').append(item);
  lastWho = who;
  if (!line.isMine) shown.set(line.id, { line });
  if (follows || line.isMine) item.scrollIntoView({ block: 'end' });
}

// How far an own message came, and on a tap why.
function ownFoot(line, time) {
  const foot = element('div', 'foot'), how = element('button', 'how', howFar(line)), why = element('p', 'why');
  Object.assign(how, { type: 'button', ariaExpanded: 'false' });
  Object.assign(why, { hidden: true, role: 'status' });
  how.addEventListener('click', async () => {
    why.hidden = how.ariaExpanded === 'true';
    how.ariaExpanded = String(!why.hidden);
    if (!why.hidden) why.textContent = await askedWhy(line);
  });
  foot.append(time, how, why);
  shown.set(line.id, { line, how });
  if (early.has(line.id)) change(line.id, early.get(line.id));
  early.delete(line.id);
  return foot;
}

// The node is asked; what it tells is newer than what is shown.
async function askedWhy(line) {
  const sentence = because(line, node);
  if (sentence) return sentence;
  try {
    const found = told(await node.why(line.id));
    if (found.outcomes) await change(line.id, { outcomes: found.outcomes });
    return found.text;
  } catch (error) {
    return `The node has it on disk. ${error.message}`;
  }
}

async function change(id, part) {
  const found = shown.get(id);
  if (found) {
    Object.assign(found.line, part);
    if (found.how) found.how.textContent = howFar(found.line);
  } else {
    early.set(id, { ...early.get(id), ...part });
    if (early.size > EARLY_MAX) early.delete(early.keys().next().value);
  }
  await history.change(id, part);
}

// What became of own messages is asked where the node may not tell it: it follows those of the present link, and none from before
// it was started again.
async function catchUp() {
  if (!isListed || isCatchingUp || !rightsOf(node.rights).includes('why')) return;
  isCatchingUp = true;
  const own = [...shown.values()].filter(({ how, line }) => how && line.state === 'custody' && Date.now() - line.at < ASKED_FOR_MS).map(({ line }) => line);
  const untold = own.filter(({ outcomes }) => !Object.keys(outcomes ?? {}).length).slice(-ASKED_AT_ONCE);
  const awaited = own.filter(({ outcomes }) => outcomes?.queued).slice(-AWAITED_AT_ONCE);
  for (const line of [...untold, ...awaited]) if (node.state === 'up') await askedWhy(line);
  isCatchingUp = false;
}

function catchUpSoon() {
  clearTimeout(untoldTimer);
  untoldTimer = setTimeout(catchUp, UNTOLD_MS);
}

async function listen() {
  const heard = group.messages(), before = await history.lines(group.key);
  [...before, ...saidEarly].forEach(show);
  isListed = true;
  look();
  $('room').hidden = $('forget').hidden = false;
  $('lines').lastElementChild?.scrollIntoView({ block: 'end' });
  if (group.maySend) $('text').focus();
  for (const one of before) if (one.isMine && one.state === 'waiting' && !node.waiting.has(one.id)) change(one.id, { state: 'custody' });
  catchUp();
  for await (const message of heard) {
    const line = { id: message.id, group: group.key, at: message.at, text: words(message.body), isMine: false, gap: message.missing.length > 0 };
    const isNew = await history.add(line);
    show(line);
    if (document.hidden && !await isSeen()) await callFor(line, isNew);
  }
}

// A tab that is looked at holds a lock, by which the others know.
function look() {
  letGo();
  if (!document.hidden && group) navigator.locks.request(seenLock(), { mode: 'shared' }, () => new Promise(done => { letGo = done; if (document.hidden) done(); }));
}

const seenLock = () => `chat seen ${group.key}`;
const isSeen = async () => (await navigator.locks.query()).held.some(({ name }) => name === seenLock());

// Nobody looks, in any tab: count, and notify who asked for it. `isNew`: no other tab has got it before, and called for it.
async function callFor(line, isNew) {
  unread++;
  title();
  if (!isNew || globalThis.Notification?.permission !== 'granted') return;
  const told = { body: line.text.slice(0, 200), tag: group.key, icon: 'icon.svg' }, place = await navigator.serviceWorker?.getRegistration();
  if (place?.active) await place.showNotification(group.name ?? 'Chat', told);
  else new Notification(group.name ?? 'Chat', told);
}

function say() {
  const said = $('text').value.trimEnd();
  if (!said) return;
  $('text').value = '';
  fit();
  const words = `${me}: ${said}`;
  group.publish(text(words), {
    onKept: async (id, onDisk) => {
      const line = { id, group: group.key, at: Date.now(), text: words, isMine: true, state: onDisk ? 'waiting' : 'here' };
      show(line);
      others.postMessage(line);
      await history.add(line).catch(failed);
      if (!node.waiting.has(id) && shown.get(id).line.state !== 'waiting') change(id, { state: shown.get(id).line.state });
    },
  }).catch(error => {
    if (error.id) return;
    $('text').value = said;
    notice(`Not said: ${error.message}`);
  });
}

function fit() {
  $('text').style.height = 'auto';
  $('text').style.height = `${Math.min($('text').scrollHeight + 2, innerHeight / 3)}px`;
}

// -- beginning ------------------------------------------------------------------------------------------------

function standing() {
  const { state: now, stateText: why } = node ?? {}, state = isOut || now === 'up' && why ? 'ended' : now;
  const said = { up: group ? 'Connected. Sealed for the members of this group.' : 'Connected.', away: `Not connected: ${why}. What you say waits here.`, ended: isOut ? 'Not invited.' : `Ended: ${why}` };
  $('state').textContent = said[state] ?? 'Connecting…';
  $('state').className = state;
}

function takeLink() {
  const given = decodeURIComponent(location.hash.slice(1));
  if (given) window.history.replaceState(null, '', location.pathname + location.search);
  return given;
}

async function enter(link) {
  notice('');
  localStorage.setItem(NAME_KEPT, me);
  $('enter').hidden = true;
  $('state').textContent = 'Connecting…';
  history ??= await openHistory(notice);
  node ??= await connect({
    name: 'chat', invitation: link || undefined, as: me, onUp: () => { standing(); catchUpSoon(); }, onAway: standing,
    onProblem: sentence => { notice(sentence); standing(); }, onTurnedAway: turnedAway,
    onCustody: id => { change(id, { state: 'custody' }); catchUpSoon(); }, onRefused: (id, error) => change(id, { state: 'refused', why: error.message }),
    onOutcome: (id, rows) => change(id, { outcomes: counted((shown.get(id)?.line ?? early.get(id))?.outcomes, rows) }),
    onMissed: ({ group: from, count, reason }) => (!from || from === group?.key) && between('gap', `${count === 1 ? 'One message' : `${count} messages`} did not reach this device: ${reason}.`),
  });
  standing();
  const known = localStorage.getItem(GROUP_KEPT), kept = node.groups.find(([key]) => key === known) ?? node.groups[0];
  if (!link && !kept) return uninvited(UNINVITED);
  group = await node.join(link ? undefined : kept[0], { order: 'causal' });
  localStorage.setItem(GROUP_KEPT, group.key);
  standing();
  $('title').textContent = group.name ?? 'Chat';
  title();
  $('say').hidden = !group.maySend;
  $('notify').hidden = globalThis.Notification?.permission !== 'default';
  $('keeps').textContent = node.mayForget;
  keepOffline();
  await listen();
}

function ask(link) {
  const { name, group: to, kind } = readLink(link);
  isAsking = true;
  const what = to?.name ? `the group “${to.name}”` : 'a group';
  $('invited').textContent = kind === 'invitation' ? `${name ? `“${name}”` : 'A node'} invites you to ${what}. No account is needed; the key stays in this browser.` : `This is the link of ${what}.`;
  $('name').value = localStorage.getItem(NAME_KEPT) ?? '';
  $('enter').hidden = false;
  $('name').focus();
  $('enter').addEventListener('submit', event => {
    event.preventDefault();
    me = $('name').value.replaceAll(/[\n:]/g, ' ').trim();
    if (me) enter(link).catch(failed);
  });
}

function uninvited(sentence) {
  isOut = !group;
  if (isOut) $('enter').hidden = true;
  notice(sentence);
  standing();
}

function turnedAway(error) {
  uninvited(`The invitation does not hold: ${error.message} Ask for a new one.`);
}

function failed(error) {
  if (error.reason?.startsWith('invite:')) return turnedAway(error);
  notice(error.message);
  if (!group && isAsking) $('enter').hidden = false;
}

async function begin() {
  const why = cannotBegin(), link = takeLink();
  if (why) return notice(`This page cannot take part: ${why}`);
  if (link) return ask(link);
  me = localStorage.getItem(NAME_KEPT);
  const untold = window.history.state?.untold ?? '';
  window.history.replaceState(null, '');
  if (!me) return uninvited(`${UNINVITED} ${untold}`.trim());
  return enter('');
}

// The page opens without the node from now on.
function keepOffline() {
  navigator.serviceWorker?.register('offline.js').then(() => navigator.serviceWorker.ready).then(({ active }) => {
    const loaded = performance.getEntriesByType('resource').filter(one => one.initiatorType !== 'fetch').map(one => one.name).filter(name => name.startsWith(location.origin));
    active.postMessage({ files: [...new Set([location.pathname, ...loaded])], edition: EDITION, proof: new URL('../router/edition.js', import.meta.url).href });
  }).catch(() => {});
}

async function forget() {
  if (!confirm('Remove your key, your groups and what was said from this browser? You need a new invitation to come back.')) return;
  window.history.replaceState({ untold: await node.forget() }, '');
  await history.remove();
  for (const one of [NAME_KEPT, GROUP_KEPT]) localStorage.removeItem(one);
  for (const name of await caches.keys()) if (name.startsWith('chat ')) await caches.delete(name);
  await (await navigator.serviceWorker?.getRegistration())?.unregister();
  location.reload();
}

others.onmessage = ({ data }) => isListed ? show(data) : saidEarly.push(data);
$('say').addEventListener('submit', event => { event.preventDefault(); say(); });
$('text').addEventListener('input', fit);
$('text').addEventListener('keydown', event => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); say(); }
});
document.addEventListener('visibilitychange', () => { look(); if (!document.hidden) { unread = 0; title(); catchUp(); } });
$('notify').addEventListener('click', async () => { $('notify').hidden = await Notification.requestPermission() !== 'default'; });
$('forget').addEventListener('click', () => forget().catch(failed));
begin().catch(failed);
