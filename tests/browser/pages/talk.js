// A page that talks in a group: what it got, what became of what it said.
import * as router from '../router.js';

const told = { got: [], custody: [], refused: [], problems: [], away: [], outcomes: {}, missing: [], onDisk: [], at: [] };
let node, group;

async function listen() {
  for await (const message of group) {
    told.got.push(router.words(message.body));
    told.missing.push(message.missing.length);
    told.at.push(performance.now());
  }
}

async function begin(options) {
  node = await router.connect({
    onCustody: id => told.custody.push(id),
    onRefused: (id, error) => told.refused.push(error.message),
    onProblem: text => told.problems.push(text),
    onAway: text => told.away.push(text),
    onOutcome: (id, rows) => { told.outcomes[id] = [...(told.outcomes[id] ?? []), ...rows.map(one => [one.recipient, one.state])]; },
    onTurnedAway: error => told.refused.push(error.message),
    ...options,
  });
  group = await node.join(options.group, options.join);
  listen().catch(error => told.problems.push(error.stack));
  return group.name;
}

// Say so many words; resolves once all are in custody.
function say(prefix, count) {
  return Promise.all(Array.from({ length: count }, (_, i) => group.publish(router.text(`${prefix} ${i}`))));
}

// Say them, and resolve once all are on this device's disk.
function keep(prefix, count) {
  return Promise.all(Array.from({ length: count }, (_, i) => new Promise((kept, failed) => {
    group.publish(router.text(`${prefix} ${i}`), { onKept: (id, onDisk) => { told.onDisk.push(onDisk); kept(id); } }).catch(failed);
  })));
}

Object.assign(window, { router, told, begin, say, keep, node: () => node, group: () => group });
