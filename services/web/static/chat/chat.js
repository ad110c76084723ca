// A chat in a group; its messages are those of examples/chat.py: "NAME: what is said".
import { cannotBegin, connect, readLink, text, words } from '../router.js';
import { openHistory } from './history.js';

const $ = id => document.getElementById(id);
const NAME_KEPT = 'chat name';
const LINK = /https?:\/\/[^\s<>"]+[^\s<>".,;:!?)\]]/g;
const shown = new Map(), others = new BroadcastChannel('chat lines');
const isNear = () => innerHeight + scrollY > document.documentElement.scrollHeight - 120;
let node, group, history, me, unread = 0, lastDay = '';

function notice(sentence) {
  $('notice').textContent = sentence;
  $('notice').hidden = !sentence;
}

function title() {
  document.title = `${unread ? `(${unread}) ` : ''}${group?.name ?? 'Chat'}`;
}

// -- lines --------------------------------------------------------------------------------------------------

function withLinks(target, words) {
  let at = 0;
  for (const found of words.matchAll(LINK)) {
    const link = document.createElement('a');
    Object.assign(link, { href: found[0], textContent: found[0], rel: 'noreferrer noopener', target: '_blank' });
    target.append(words.slice(at, found.index), link);
    at = found.index + found[0].length;
  }
  target.append(words.slice(at));
}

function howFar({ state, outcomes, why }) {
  if (state === 'refused') return `not delivered: ${why}`;
  if (state === 'waiting') return 'waiting on this device';
  const all = Object.values(outcomes ?? {}).reduce((sum, count) => sum + count, 0);
  const reached = (outcomes?.delivered ?? 0) + (outcomes?.acked ?? 0);
  return all ? `reached ${reached} of ${all}` : 'on the node';
}

function because({ state, outcomes, why }) {
  if (state === 'refused') return why;
  if (state === 'waiting') return `It is signed and kept here, and goes out when the node can be reached: ${node.state === 'up' ? 'in a moment' : node.stateText || 'it is away'}.`;
  const rows = Object.entries(outcomes ?? {}).filter(([, count]) => count).map(([said, count]) => `${count} ${said}`);
  return rows.length ? `At this node: ${rows.join(', ')}.` : 'The node has it on disk. It tells how far messages came to those who were invited with the right "why".';
}

function show(line) {
  if (shown.has(line.id) || line.group !== group.key) return;
  const day = new Date(line.at).toLocaleDateString(undefined, { dateStyle: 'full' }), follows = isNear();
  if (day !== lastDay) {
    const item = document.createElement('li');
    Object.assign(item, { className: 'day', textContent: lastDay = day });
    $('lines').append(item);
  }
  const item = document.createElement('li'), body = document.createElement('p'), split = /^([^\n:]{1,40}): ([^]*)$/.exec(line.text);
  item.className = line.isMine ? 'line mine' : 'line';
  if (split && !line.isMine) {
    const who = document.createElement('span');
    Object.assign(who, { className: 'who', textContent: `${split[1]}: ` });
    body.append(who);
  }
  withLinks(body, split ? split[2] : line.text);
  const how = document.createElement(line.isMine ? 'button' : 'span');
  how.className = 'how';
  item.append(body, how);
  $('lines').append(item);
  shown.set(line.id, { line, how });
  if (line.isMine) how.addEventListener('click', () => notice(because(shown.get(line.id).line)));
  else how.textContent = new Date(line.at).toLocaleTimeString(undefined, { timeStyle: 'short' });
  if (line.isMine) how.textContent = howFar(line);
  if (follows || line.isMine) item.scrollIntoView({ block: 'end' });
}

function changed(id, part) {
  const found = shown.get(id);
  if (!found) return;
  Object.assign(found.line, part);
  found.how.textContent = howFar(found.line);
}

async function change(id, part) {
  changed(id, part);
  await history.change(id, part).catch(error => notice(error.message));
}

function outcome(id, rows) {
  const outcomes = { ...(shown.get(id)?.line.outcomes ?? {}) };
  for (const { recipient, state } of rows) {
    const count = typeof recipient === 'number' ? recipient : 1;
    if (state !== 'queued' && outcomes.queued) outcomes.queued = Math.max(0, outcomes.queued - count);
    outcomes[state] = (outcomes[state] ?? 0) + count;
  }
  change(id, { outcomes });
}

async function listen() {
  const heard = group.messages(), before = await history.lines(group.key);
  before.forEach(show);
  for (const one of before) if (one.isMine && one.state === 'waiting' && !node.waiting.has(one.id)) change(one.id, { state: 'custody' });
  for await (const message of heard) {
    const line = { id: message.id, group: group.key, at: message.at, text: words(message.body), isMine: false };
    await history.add(line);
    show(line);
    if (document.hidden) {
      unread++;
      title();
      if (globalThis.Notification?.permission === 'granted') new Notification(group.name ?? 'Chat', { body: line.text.slice(0, 200), tag: line.id });
    }
  }
}

function say() {
  const said = $('text').value.trimEnd();
  if (!said) return;
  $('text').value = '';
  const words = `${me}: ${said}`;
  group.publish(text(words), {
    onKept: async id => {
      const line = { id, group: group.key, at: Date.now(), text: words, isMine: true, state: 'waiting' };
      show(line);
      others.postMessage(line);
      await history.add(line).catch(error => notice(error.message));
      if (!node.waiting.has(id) && shown.get(id).line.state !== 'waiting') change(id, { state: shown.get(id).line.state });
    },
  }).catch(error => {
    if (error.id) return;
    $('text').value = said;
    notice(`Not said: ${error.message}`);
  });
}

// -- beginning ------------------------------------------------------------------------------------------------

function standing() {
  const said = { up: 'Connected. Sealed for the members of this group.', away: `Not connected: ${node.stateText}. What you say waits here.`, ended: `Ended: ${node.stateText}` };
  $('state').textContent = said[node.state] ?? 'Connecting…';
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
  node ??= await connect({
    name: 'chat', invitation: link || undefined, as: me, onUp: standing, onAway: standing,
    onProblem: notice, onTurnedAway: error => notice(`The invitation does not hold: ${error.message} Ask for a new one.`),
    onCustody: id => change(id, { state: 'custody' }), onRefused: (id, error) => change(id, { state: 'refused', why: error.message }), onOutcome: outcome,
    onMissed: ({ count, reason }) => notice(`${count} messages did not reach this device: ${reason}.`),
  });
  standing();
  group = link ? await node.join() : node.group(node.groups[0][0]);
  $('title').textContent = group.name ?? 'Chat';
  title();
  $('room').hidden = $('forget').hidden = false;
  $('notify').hidden = globalThis.Notification?.permission !== 'default';
  $('keeps').textContent = node.mayForget;
  $('text').focus();
  await listen();
}

function ask(link) {
  const { name, group: to, kind } = readLink(link);
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

function failed(error) {
  notice(error.message);
  if (!group) $('enter').hidden = false;
}

async function begin() {
  const why = cannotBegin(), link = takeLink();
  if (why) return notice(`This page cannot take part: ${why}`);
  history = await openHistory();
  me = localStorage.getItem(NAME_KEPT);
  if (link) return ask(link);
  if (!me) return notice('Nobody has invited this browser yet: open the link that you were sent, all of it.');
  return enter('');
}

others.onmessage = ({ data }) => group && show(data);
$('say').addEventListener('submit', event => { event.preventDefault(); say(); });
$('text').addEventListener('keydown', event => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); say(); }
});
document.addEventListener('visibilitychange', () => { if (!document.hidden) { unread = 0; title(); } });
$('notify').addEventListener('click', async () => { $('notify').hidden = await Notification.requestPermission() !== 'default'; });
$('forget').addEventListener('click', async () => {
  if (!confirm('Remove your key, your groups and what was said from this browser? You need a new invitation to come back.')) return;
  await node.forget();
  history.remove();
  localStorage.clear();
  location.reload();
});
navigator.serviceWorker?.register('offline.js').then(() => navigator.serviceWorker.ready).then(({ active }) => {
  active.postMessage([location.pathname, ...performance.getEntriesByType('resource').map(one => one.name).filter(name => name.startsWith(location.origin))]);
}).catch(() => {});
begin().catch(failed);
