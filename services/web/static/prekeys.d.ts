// What is sealed to one alone (docs/apps.md).

/** Keys that cannot be read out; IndexedDB can hold them. */
export interface KeptPrekeys {
  key: { public: Uint8Array; secret: CryptoKey };
  x25519: { public: Uint8Array; secret: CryptoKey };
  counts: Map<string, number>;
}

export class SealedError extends Error {}

export class Prekeys {
  static open(kept?: KeptPrekeys): Promise<Prekeys>;
  readonly kept: KeptPrekeys;
  /** The prekey, which all may see: whoever has it can seal to this one. */
  readonly bytes: Uint8Array;
  /** The key that signs what is sealed, as hex. */
  readonly address: string;
  seal(prekey: Uint8Array, content: Uint8Array): Promise<Uint8Array>;
  open(body: Uint8Array): Promise<{ sender: string; content: Uint8Array }>;
}
