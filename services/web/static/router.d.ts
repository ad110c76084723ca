// The names of docs/apps.md, for pages. Times in seconds and minutes as there; ids and keys are hex.

export interface Options {
  /** Under which the key, the groups and the outbox last; tabs with one name share one link. Usual: "app". */
  name?: string;
  /** Where the node is dialled: wss://…/link, or relative to the page. Usual: what the invitation names. */
  url?: string;
  /** An invitation or a group's link, "upsycle:…". */
  invitation?: string;
  /** The guest's name, told to the node that invites. */
  as?: string;
  /** The router's key, if another is to be turned away. */
  expect?: Uint8Array;
  /** A key of the app's own; the link is then held by a tab, not by a worker. */
  signer?: { public: Uint8Array; sign(bytes: Uint8Array): Promise<Uint8Array> };
  outcomes?: boolean;
  onUp?(): void;
  onAway?(sentence: string, state: State): void;
  onProblem?(sentence: string): void;
  onMissed?(missed: Missed): void;
  onReport?(report: Report): void;
  onCustody?(id: string): void;
  onRefused?(id: string, error: Refused): void;
  onOutcome?(id: string, recipients: RecipientOutcome[]): void;
  onTurnedAway?(error: Refused): void;
  onTerms?(rights: Right[]): void;
}

export type State = 'idle' | 'up' | 'away' | 'ended';
export type Right = 'join' | 'store' | 'relay' | 'why';

export interface PublishOptions {
  ttl_s?: number;
  expiry_min?: number;
  /** The same key is the same message, within a day. */
  key?: string;
  /** The body goes unsealed, for readers that joined with `raw`. */
  raw?: boolean;
  /** Called when the message is signed and kept here; `onDisk`: also after all tabs were closed. */
  onKept?(id: string, onDisk: boolean): void;
}

export interface JoinOptions {
  /** "causal": each message after its causes. For all tabs, until they are closed; from "arrival" to "causal" only. */
  order?: 'arrival' | 'causal';
  /** The longest wait for a missing cause in causal order. Usual: 30. */
  gap_s?: number;
  /** Read and publish bodies unsealed. */
  raw?: boolean;
}

/** Leaving a loop settles nothing: what it held is settled when the next one over the same group begins. */
export interface LoopOptions { settleOnNext?: boolean }
export interface Missed { group: string | null; count: number; reason: string }
/** What became of an own message, in numbers; `beyond`: how many routers behind the node. `problem`: why that is not told. */
export interface Told { problem: string; outcomes: { state: string; reason: string | null; count: number; beyond: number }[] }
export interface Report { id: string; to: string; state: string; reason: string }
export interface RecipientOutcome { recipient: string | number; state: string; reason: string | null }

/** Why a page cannot take part here, with the remedy; "" if it can. */
export function cannotBegin(): string;
/** Sign on. Resolves without a node too: what is said meanwhile waits on this device. */
export function connect(options?: Options): Promise<Node>;

export class Node implements AsyncIterable<Message> {
  readonly key: string;
  readonly state: State;
  /** Why the node is away or the link has ended; while it is up, that the node does not let this key into a group. */
  readonly stateText: string;
  /** Ids that wait on this device for the node. */
  readonly waiting: Set<string>;
  /** What this browser may forget, or does not keep at all, as a sentence; "" if it keeps all. */
  readonly mayForget: string;
  readonly problems: string[];
  readonly missed: Missed[];
  readonly reports: Report[];
  /** Resolves once the node has been reached. */
  whenUp(): Promise<void>;
  /** Look at once whether the node can be reached. */
  wake(): void;
  /** By link, invitation, name or key; without one, the group of the invitation. */
  join(group?: string, options?: JoinOptions): Promise<Group>;
  group(nameOrKey: string): Group;
  leave(group: Group): Promise<void>;
  /** Resolves with the id on custody. Not sealed by itself. */
  send(key: string | Uint8Array, body: Uint8Array, options?: PublishOptions): Promise<string>;
  follow(id: string): Outcomes;
  /** Ask the node what became of an own message; needs the right `why`. */
  why(id: string): Promise<Told>;
  /** Of all groups, and to this app's own address. */
  messages(options?: LoopOptions): AsyncIterableIterator<Message>;
  unicasts(options?: LoopOptions): AsyncIterableIterator<Message>;
  [Symbol.asyncIterator](): AsyncIterableIterator<Message>;
  /** End this tab's part; other tabs go on. */
  close(): void;
  /** Leave the groups at the node, and remove the key and what waits: for all tabs, and for good. Resolves with a
   * sentence if the node could not be told, else with "". */
  forget(): Promise<string>;
}

export class Group implements AsyncIterable<Message> {
  readonly key: string;
  readonly name: string | null;
  readonly maySend: boolean;
  /** Resolves with the id on custody; rejects with `Refused`. */
  publish(body: Uint8Array, options?: PublishOptions & { wait?: false }): Promise<string>;
  publish(body: Uint8Array, options: PublishOptions & { wait: true }): Promise<Outcomes>;
  messages(options?: LoopOptions): AsyncIterableIterator<Message>;
  leave(): Promise<void>;
  [Symbol.asyncIterator](): AsyncIterableIterator<Message>;
}

export class Message {
  readonly id: string;
  readonly body: Uint8Array;
  readonly group: string | null;
  readonly source: string | null;
  readonly sender: string | null;
  readonly seq: number | null;
  readonly deps: string[];
  readonly via: string | null;
  readonly at: number;
  readonly redelivered: boolean;
  /** In causal order: the causes that had not come. */
  readonly missing: string[];
  /** In causal order: whether a message that names this one was given before it. */
  readonly late: boolean;
  /** Resolves once it is on disk as handled. */
  /** Resolve once this message is on disk as handled; it does not come again then. */
  settle(): Promise<void>;
  /** Say that it is not taken: a final reason ends it, with a later one it comes again. */
  refuse(reason?: string, text?: string): Promise<void>;
}

export class Outcomes implements AsyncIterable<RecipientOutcome> {
  readonly id: string;
  readonly recipients: RecipientOutcome[];
  readonly complete: boolean;
  final(timeout_s?: number): Promise<RecipientOutcome[]>;
  [Symbol.asyncIterator](): AsyncIterator<RecipientOutcome>;
}

export class RouterError extends Error {}
export class NodeUnavailable extends RouterError {}
export class InsecureContext extends RouterError {}
export class StorageError extends RouterError {}
export class Refused extends RouterError {
  readonly reason: string;
  readonly later: boolean;
  readonly id: string | null;
}

/** The version of the client's files, as the node that serves them tells it; "" where something else serves them. */
export const EDITION: string;
export function reasonOf(number: number): { number: number; word: string; sentence: string; later: boolean };
export function rightsOf(number: number): Right[];
export function readLink(text: string): object;
/** The link of a new group: whoever has it may read and send there. Nobody else knows it until it is passed on. */
export function newGroup(name?: string): Promise<string>;
export function text(words: string): Uint8Array;
export function words(bytes: Uint8Array): string;
export function hex(bytes: Uint8Array): string;
export function unhex(digits: string): Uint8Array;
