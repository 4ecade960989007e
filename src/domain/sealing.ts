import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';

/** What is sealed. Each purpose has its own key, derived from the master key. */
export const sealingPurposes = [
  'device secrets',
  'stored answers',
  'cache entries',
  'csrf tokens',
  'provider sign-ins',
  'command parameters',
] as const;
export type SealingPurpose = (typeof sealingPurposes)[number];

/** What a blob is sealed for: it opens for nothing else. `aad` names one row, entry or session of the purpose. */
export interface SealedPlace {
  purpose: SealingPurpose;
  aad: string;
}

/** Encrypts secrets at rest with AES-256-GCM. */
export interface Sealer {
  seal(plain: string, place: SealedPlace): string;
  /** Throws `SealBroken` if the blob was sealed with an unknown key or for another place, or was modified. */
  open(blob: string, place: SealedPlace): string;
  /** Whether the blob has the current key, and the form that `seal` uses now or a later one. */
  isCurrent(blob: string): boolean;
  readonly keyIds: MasterKeyIds;
}

/** The ids of the master keys, by which blobs name them. */
export interface MasterKeyIds {
  current: string;
  next: string | null;
  previous: string | null;
}

/** 32 bytes each. */
export interface MasterKeys {
  /** Seals and opens. */
  current: Uint8Array;
  /** They only open. */
  next?: Uint8Array | undefined;
  previous?: Uint8Array | undefined;
}

/** A sealed secret cannot be decrypted: it was sealed with another master key, or its row was modified. */
export class SealBroken extends Error {
  override name = 'SealBroken';
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * A blob is `<form>.<id of the master key>.<nonce, ciphertext and tag, base64url>`. `s1` is encrypted with the master key
 * itself, as by version 1.0.0, `s2` with the sub-key of its purpose.
 */
const forms = ['s1', 's2'] as const;
export type SealedForm = (typeof forms)[number];

const KEY_ID_LENGTH = 11;
const BLOB = new RegExp(`^(${forms.join('|')})\\.([\\w-]{${KEY_ID_LENGTH}})\\.([\\w-]+)$`);

/** The key's id inside a blob: 8 bytes of a hash that reveals nothing about the key. */
export const keyId = (key: Uint8Array): string =>
  createHash('sha256').update('twinkeep master key id\0').update(key).digest('base64url').slice(0, KEY_ID_LENGTH);

/** The form of a blob and the id of the master key that sealed it; null if it is not a blob. */
export function sealedWith(blob: string): { form: SealedForm; keyId: string } | null {
  const match = BLOB.exec(blob);
  return match === null ? null : { form: match[1] as SealedForm, keyId: match[2] as string };
}

/**
 * A sealer that seals with the current key and opens what any of the keys has sealed. Seals in the form `s1` as long as
 * `usesSubKeys` returns false, because nodes of an older build cannot open `s2`.
 */
export function makeSealer(keys: MasterKeys, usesSubKeys: () => boolean = () => true): Sealer {
  const known = new Map<string, MasterKey>();
  for (const bytes of [keys.current, keys.next, keys.previous]) {
    if (bytes !== undefined) known.set(keyId(bytes), new MasterKey(bytes));
  }
  const sealingId = keyId(keys.current);
  const sealingKey = known.get(sealingId) as MasterKey;
  const formNow = (): SealedForm => (usesSubKeys() ? 's2' : 's1');

  return {
    seal(plain, place) {
      const form = formNow();
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', sealingKey.keyFor(form, place), nonce);
      cipher.setAAD(boundTo(form, sealingId, place));
      const body = Buffer.concat([nonce, cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()]);
      return `${form}.${sealingId}.${body.toString('base64url')}`;
    },
    open(blob, place) {
      const found = sealedWith(blob);
      const body = Buffer.from(blob.slice(blob.lastIndexOf('.') + 1), 'base64url');
      if (found === null || body.length < NONCE_BYTES + TAG_BYTES) throw new SealBroken('blob is not a sealed secret');
      const { form, keyId: id } = found;
      const key = known.get(id)?.keyFor(form, place);
      if (key === undefined) throw new SealBroken(`blob is sealed with the unknown master key ${id}`);
      const decipher = createDecipheriv('aes-256-gcm', key, body.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
        .setAAD(boundTo(form, id, place))
        .setAuthTag(body.subarray(-TAG_BYTES));
      try {
        return Buffer.concat([decipher.update(body.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString();
      } catch {
        throw new SealBroken('blob was modified, or sealed for another place');
      }
    },
    keyIds: masterKeyIds(keys),
    isCurrent(blob) {
      const { form, keyId: id } = sealedWith(blob) ?? {};
      // Another node may already know that all nodes open `s2`.
      return id === sealingId && (form === 's2' || form === formNow());
    },
  };
}

/** The ids of these keys. */
export const masterKeyIds = ({ current, next, previous }: MasterKeys): MasterKeyIds => ({
  current: keyId(current),
  next: next === undefined ? null : keyId(next),
  previous: previous === undefined ? null : keyId(previous),
});

/** A master key and its sub-keys (HKDF-SHA-256, RFC 5869). */
class MasterKey {
  readonly #bytes: Uint8Array;
  readonly #subKeys: ReadonlyMap<SealingPurpose, Uint8Array>;

  constructor(bytes: Uint8Array) {
    if (bytes.length !== 32) throw new RangeError('master key must be 32 bytes');
    this.#bytes = Uint8Array.from(bytes); // a copy, so that the caller cannot change it
    this.#subKeys = new Map(
      sealingPurposes.map((purpose) => [
        purpose,
        new Uint8Array(hkdfSync('sha256', bytes, '', `twinkeep sealed ${purpose}`, 32)),
      ]),
    );
  }

  keyFor(form: SealedForm, { purpose }: SealedPlace): Uint8Array {
    return form === 's1' ? this.#bytes : (this.#subKeys.get(purpose) as Uint8Array);
  }
}

const boundTo = (form: SealedForm, id: string, { aad }: SealedPlace): Buffer => Buffer.from(`${form}.${id}\0${aad}`);
