// The pool of CAPD for pages (docs/capd.md). Data is bytes; hashes, secrets and nonces are hex; times are Unix seconds.

export interface CapdMessage {
  hash: string;
  created: number;
  difficultyBits: number;
  nonce: string;
  /** Seconds after `created`. */
  expiration?: number;
  rescindHash?: string;
}

export interface Hit extends CapdMessage {
  data: Uint8Array;
  /** The data of a reply behind the bytes that name its message. */
  reply: Uint8Array;
  state: 'relayed' | 'local' | 'faded' | 'expired' | 'rescinded';
  priority: number | string;
  initialPriority: number | string;
  powTarget: string;
  size: number;
}

/** A message of one's own; `secret` rescinds it, "" if it cannot be rescinded. */
export interface Offer extends CapdMessage { data: Uint8Array; secret: string }

export interface Solved { data: string; created: number; difficultyBits: number; nonce: string; expiration?: number; rescindHash?: string }
export interface Unsolved { data: string; relayFor?: number; expiration?: number; rescindHash?: string }
export interface Posted { hash: string; held: boolean; state?: string }
export interface PoolInfo {
  size: number; count: number; relayPriority: number | string; minPriority: number | string; maxPriority: number | string;
  dataBytesMax: number; solves: boolean;
}

/** Which messages: whose data begins with `prefix`, or with `value` in the bits of `mask`. */
export interface Pattern { prefix?: Uint8Array | string; value?: Uint8Array | string; mask?: Uint8Array | string }

export interface SolveOptions {
  /** Ends the work. */
  signal?: AbortSignal;
  /** Gets how many nonces were tried. */
  onProgress?(tried: number): void;
  /** Usual: one a core. */
  workers?: number;
}

export interface OfferOptions extends SolveOptions { relayFor?: number; expiration?: number; rescindable?: boolean }

export interface WatchOptions extends Pattern {
  /** The hash behind which to begin; 64 zeros: with all that matches. Usual: with what comes from now on. */
  since?: string;
  signal?: AbortSignal;
  onUp?(): void;
  onAway?(sentence: string): void;
  /** Some may be missing. */
  onGap?(sentence: string): void;
}

export class PoolError extends Error {
  readonly reason: string;
  readonly status: number;
  /** Whether to ask again later makes sense. */
  readonly isLater: boolean;
}

export class Pool {
  constructor(url?: string | URL);
  info(): Promise<PoolInfo>;
  /** Do the work of a message that nodes pass on for `relayFor` seconds, and post it. */
  offer(data: Uint8Array, options?: OfferOptions): Promise<Offer>;
  reply(to: { hash: string }, data: Uint8Array, options?: OfferOptions): Promise<Offer>;
  post(message: Solved | Unsolved): Promise<Posted>;
  get(hash: string): Promise<Hit>;
  query(options?: Pattern & { start?: number; limit?: number }): Promise<{ count: number; messages: Hit[] }>;
  /** Returns the hashes that it has ended now. */
  rescind(hash: string, secret: string): Promise<string[]>;
  watch(options?: WatchOptions): AsyncGenerator<Hit, void>;
}

/** Resolves with the nonce of a message. */
export function solve(draft: Omit<Solved, 'nonce'>, options?: SolveOptions): Promise<string>;
export function expectedSeconds(difficultyBits: number): Promise<number>;
export function cores(): number;
/** Whether a message is the one of its hash, and its work is done. */
export function isGenuine(message: Solved & { hash: string }): boolean;
export function replyPrefix(hash: string): Uint8Array;
export function hex(bytes: Uint8Array): string;
export function unhex(digits: string): Uint8Array;
export function text(words: string): Uint8Array;
export function words(bytes: Uint8Array): string;
