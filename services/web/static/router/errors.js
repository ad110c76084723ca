// The errors that an app may meet; all are kinds of RouterError, as in docs/apps.md.
import { REASONS } from './reasons.js';

export class RouterError extends Error {
  constructor(message) { super(message); this.name = new.target.name; }
}

// Nothing can be sent here, now or ever.
export class NodeUnavailable extends RouterError {}

// The page is not one to which browsers give keys.
export class InsecureContext extends RouterError {}

// The browser keeps nothing, or has no room.
export class StorageError extends RouterError {}

// A node, or a recipient, refuses a message, a group or a guest. `later`: trying again makes sense.
export class Refused extends RouterError {
  constructor({ number, text }, id = null) {
    const { word, sentence, later } = reasonOf(number);
    super(text ? `${sentence.replace(/\.$/, '')}: ${text}` : sentence);
    Object.assign(this, { reason: word, later, id });
  }
}

// A refusal as it is kept and passed between tabs.
export class Refusal {
  constructor(number, text = '') { this.number = number; this.text = text; }
}

export function reasonOf(number) {
  const [word, sentence, later] = REASONS[number] ?? [`reason-${number}`, 'It was ended for a reason that this page has no words for.', false];
  return { number, word, sentence, later };
}

export function numberOf(word) {
  const found = Object.keys(REASONS).find(number => REASONS[number][0] === word);
  if (found === undefined) throw new RouterError(`"${word}" is no reason to refuse a message; reasons are ${Object.values(REASONS).map(one => one[0]).join(', ')}`);
  return Number(found);
}
