// How far an own message has come, in words.
import { REASONS } from '../router/reasons.js';

const REACHED = ['delivered', 'acked'];
const WORDS = { queued: 'waiting at the node for somebody who is away', unconfirmed: 'sent on, without a confirmation', expired: 'not reached in time', refused: 'refused', dropped: 'given up', evicted: 'given up', unknown: 'not known' };

function sum(outcomes, states) {
  return Object.entries(outcomes ?? {}).reduce((all, [state, count]) => all + (!states || states.includes(state) ? count : 0), 0);
}

// In a few words, which stand below the message.
export function howFar({ state, outcomes, why }) {
  if (state === 'refused') return `not delivered: ${why}`;
  if (state === 'waiting') return 'waiting on this device';
  if (state === 'here') return 'waiting in this tab: leave it open';
  return sum(outcomes) ? `reached ${sum(outcomes, REACHED)} of ${sum(outcomes)}` : 'on the node';
}

// In sentences, without asking the node.
export function because({ state, why }, node) {
  if (state === 'refused') return why;
  const when = node.state === 'up' ? 'in a moment' : `when the node can be reached (${node.stateText || 'it is away'})`;
  if (state === 'waiting') return `It is signed and kept on this device, and goes out ${when}.`;
  if (state === 'here') return `This device has no room to keep it. It goes out ${when}, if this tab stays open until then.`;
  return '';
}

// What the node has told of it: its counts by state, and sentences.
export function told({ problem, outcomes }) {
  if (problem) return { outcomes: null, text: `The node has it. How far it came is not told: ${problem}.` };
  const counts = {}, rest = [];
  for (const { state, reason, count, beyond } of outcomes) {
    counts[state] = (counts[state] ?? 0) + count;
    if (REACHED.includes(state)) continue;
    const sentence = Object.values(REASONS).find(([word]) => word === reason)?.[1] ?? (reason ? `${reason}.` : '');
    rest.push(`${count} ${WORDS[state] ?? state}${beyond ? ', behind another node' : ''}.${sentence ? ` ${sentence}` : ''}`);
  }
  const all = sum(counts);
  if (!all) return { outcomes: counts, text: 'The node owes it to nobody: no one else has joined the group there.' };
  return { outcomes: counts, text: [`It has reached ${sum(counts, REACHED)} of ${all}.`, ...rest].join(' ') };
}

// The counts, after news of some recipients: each is a key, or a number of them.
export function counted(outcomes, rows) {
  const counts = { ...outcomes };
  for (const { recipient, state } of rows) {
    const count = typeof recipient === 'number' ? recipient : 1;
    if (state !== 'queued' && counts.queued) counts.queued = Math.max(0, counts.queued - count);
    counts[state] = (counts[state] ?? 0) + count;
  }
  return counts;
}
