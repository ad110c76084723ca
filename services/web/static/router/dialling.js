// Keeps one connection to the node: dials again when it is lost, at once when the network or the tab comes back.
import { Link } from './link.js';
import { reasonOf } from './errors.js';

const RETRY_FIRST_MS = 100, RETRY_MAX_MS = 15000;
const QUIET_MS = 70000, LOOK_MS = 15000;
const PROBE_STEPS = 4, PROBE_STEP_MS = 2000;
const ASK_WHY_MS = 30000;
const UNSUPPORTED = 2, REPLACED = 26, SHUTDOWN = 27;
const FINAL = new Set([UNSUPPORTED, 4, 9, 10, REPLACED]);

export class Dialling {
  #offer;
  #said;
  #failures = 0;
  #timer = null;
  #looking = null;
  #isProbing = false;
  #unsaid = '';
  #askedWhyAt = -Infinity;
  link = null;
  isFinal = false;
  isStopped = true;

  // `offer()` returns what a Link is made of; `said(state, sentence)` hears that the node is "away", or the link "ended".
  constructor(offer, said) {
    this.#offer = offer;
    this.#said = said;
  }

  start() {
    this.isStopped = this.isFinal = false;
    this.#failures = 0;
    this.#dial();
    clearInterval(this.#looking);
    this.#looking = setInterval(() => this.#look(), LOOK_MS);
  }

  // The network is back, or somebody looks at the page again: timers may have slept, so nothing is judged by a clock.
  wake() {
    if (this.isStopped || this.isFinal) return;
    if (this.link?.isUp) this.#probe();
    else if (!this.link) { this.#failures = 0; this.#dial(); }
  }

  up() {
    this.#failures = 0;
    this.#unsaid = '';
  }

  stop(reason, why) {
    this.isStopped = true;
    clearTimeout(this.#timer);
    clearInterval(this.#looking);
    this.link?.leave(reason, why);
  }

  #dial() {
    clearTimeout(this.#timer);
    const offer = this.#offer();
    let link = null;
    const ended = (...how) => this.#ended(link, ...how);
    try {
      link = this.link = new Link({ ...offer, hear: { ...offer.hear, ended } });
    } catch (error) {
      this.#ended(null, `${offer.url} cannot be dialled: ${error.message}`, null);
    }
  }

  #ended(link, why, reason, isTheirs = false) {
    if (link !== this.link) return;
    const wasUp = !!link?.router;
    this.link = null;
    this.isFinal = FINAL.has(reason);
    const said = reason === REPLACED ? 'another window with the same key has signed on, and has taken the connection over: close it, then load this page again to take it back'
      : !isTheirs ? why : reason === UNSUPPORTED ? `the node does not speak as this page does (${why}): load the page again, in all its tabs. What waits here stays` : `the node said goodbye, ${reasonOf(reason).word}: ${why}`;
    if (this.isStopped) return;
    if (this.isFinal) return this.#said('ended', said);
    const first = this.#unsaid || said, isAtOnce = wasUp && isTheirs && reason === SHUTDOWN;
    this.#unsaid = isAtOnce ? first : '';  // it mostly asks to sign on again, which follows
    if (!isAtOnce) this.#said('away', first);
    if (!wasUp) this.#askWhy();
    if (wasUp) this.#failures = 0;
    const pause = wasUp && reason === SHUTDOWN ? 0 : Math.min(RETRY_MAX_MS, RETRY_FIRST_MS * 2 ** this.#failures++);
    this.#timer = setTimeout(() => this.#dial(), pause * (0.5 + Math.random() / 2));
  }

  // A browser hides why a WebSocket failed; the node says it to a plain request.
  async #askWhy() {
    if (performance.now() - this.#askedWhyAt < ASK_WHY_MS) return;
    this.#askedWhyAt = performance.now();
    try {
      const answer = await fetch(this.#offer().url.replace(/^ws/, 'http'), { signal: AbortSignal.timeout(5000), cache: 'no-store' });
      const why = (await answer.text()).trim();
      if (why && !why.startsWith('<') && !this.link?.isUp) this.#said('away', why.slice(0, 500));
    } catch {
      // It does not answer plain requests either: what was said before holds.
    }
  }

  #look() {
    if (this.link?.isUp && performance.now() - this.link.heardAt > QUIET_MS) this.#probe();
  }

  async #probe() {
    const link = this.link;
    if (this.#isProbing || !link?.isUp) return;
    this.#isProbing = true;
    const since = performance.now();
    link.ping();
    for (let step = 0; step < PROBE_STEPS && link.heardAt < since && !link.isOver; step++) await new Promise(done => setTimeout(done, PROBE_STEP_MS));
    this.#isProbing = false;
    if (link.heardAt < since) link.end('nothing is heard of the node any more');
  }
}
