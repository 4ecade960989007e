import { z } from 'zod';
import { secretBinding } from '../../domain/device-key.ts';
import { iso } from '../../domain/iso-time.ts';
import { done } from '../../domain/refusals.ts';
import { SealBroken, type SealedPlace, sealedWith } from '../../domain/sealing.ts';
import { CANONICAL_UUID } from '../../domain/uuid.ts';
import { MAX_TOKEN_LIFE_S } from '../../services/tokens.ts';
import { type DeviceKeyPosition, type SealedKind, sealedKinds } from '../../store/contract/sealed-values.ts';
import { answerBinding } from '../idempotency.ts';
import { isoTime } from '../inputs.ts';
import { operation, type Services } from '../operation.ts';

// Changes the key of stored values after a change of the master key, in batches that can be repeated.

/** Rows that one request examines, and those that one statement reads. Stored answers can be long. */
const ROWS_PER_REQUEST = 5_000;
const PAGE_ROWS = { device_secrets: 500, stored_answers: 200 } as const satisfies Record<SealedKind, number>;

const CURSOR = new RegExp(
  `^(?:device_secrets:(${CANONICAL_UUID}):([1-9]\\d{0,8})|stored_answers(?::([A-Za-z0-9_-]{43}))?)$`,
);

/** Where the next page of a kind begins: after this row, or with the first one. */
type Place =
  | { kind: 'device_secrets'; after: DeviceKeyPosition | null }
  | { kind: 'stored_answers'; after: string | null };

const keyNames = ['current', 'next', 'previous', 'unknown'] as const;

const count = z
  .object({
    kind: z.enum(sealedKinds).meta({
      description: '`device_secrets`: of HMAC devices; `stored_answers`: of requests with an `Idempotency-Key`',
    }),
    key: z.enum(keyNames).meta({ description: 'Which of the configured master keys; `unknown`: none of them' }),
    key_id: z.string().meta({ description: 'Id of the master key, as in the values' }),
    sub_key: z.boolean().meta({ description: 'False: encrypted with the master key itself, as by version 1.0.0' }),
    rows: z.int(),
  })
  .meta({ id: 'SealedCount' });

type Count = z.infer<typeof count>;

export const rekey = operation({
  role: 'none',
  scope: null,
  platformOnly: true,
  name: 'rekey',
  summary: 'Encrypt stored secrets with the current master key, some of them for each request',
  input: z.strictObject({
    dry_run: z.boolean().default(false).meta({ description: 'Only count' }),
    after: z
      .string()
      .regex(CURSOR, 'must be `continue_after` of an answer')
      .optional()
      .meta({ description: '`continue_after` of the previous answer; without it the first rows are examined' }),
  }),
  output: z.object({
    master_keys: z.object({ current: z.string(), next: z.string().nullable(), previous: z.string().nullable() }).meta({
      id: 'MasterKeyIds',
      description: 'Ids of the configured keys',
    }),
    total: z.int().nullable().meta({ description: 'Number of rows to examine; null if the request continues' }),
    examined: z.int().meta({ description: 'Rows that this request examined' }),
    resealed: z.int().meta({ description: 'Values that it encrypted with the current key' }),
    unreadable: z.int().meta({ description: 'Values that name a configured key and cannot be decrypted with it' }),
    values: z.array(count).meta({ description: 'The examined values after this request, by their key' }),
    continue_after: z.string().nullable().meta({ description: 'Null: no rows are left' }),
    unstored_until: isoTime.nullable().meta({
      description:
        'Until then browser sessions, sign-in links and artifact URLs may depend on the previous key: they are not ' +
        'encrypted again, and expire. Null without a previous key',
    }),
  }),
  changes: true,
  inMaintenance: true,
  refuses: ['VALIDATION_FAILED'],
  example: {
    input: { dry_run: false },
    output: {
      master_keys: { current: 'fV3hGm0nB1s', next: null, previous: 'x9Q2pWz7KdE' },
      ...{ total: 2, examined: 2, resealed: 1, unreadable: 0 },
      values: [{ kind: 'device_secrets', key: 'current', key_id: 'fV3hGm0nB1s', sub_key: true, rows: 2 }],
      continue_after: null,
      unstored_until: '2026-03-02T12:00:00.000Z',
    },
  },
  auditSubject: () => 'service',
  needs: ['clock', 'log', 'masterKeys', 'nodes', 'open', 'seal', 'store'],
  async run(services, { input }) {
    const { masterKeys, log, store } = services;
    const pass = new RekeyPass(services, input.dry_run);
    const total = input.after === undefined ? await store.sealedValues.count() : null;
    let place: Place | null = placeOf(input.after);
    while (place !== null && pass.examined < ROWS_PER_REQUEST) place = await pass.page(place);
    const { examined, resealed, unreadable } = pass;
    if (resealed > 0) log.info({ resealed, key_id: masterKeys.keyIds.current }, 'stored secrets encrypted again');
    return done({
      body: {
        master_keys: { ...masterKeys.keyIds },
        ...{ total, examined, resealed, unreadable, values: pass.counts() },
        continue_after: place === null ? null : cursorOf(place),
        unstored_until: masterKeys.keyIds.previous === null ? null : await unstoredUntil(services),
      },
    });
  },
});

function placeOf(cursor = ''): Place {
  const [matched, deviceId, keyVersion, digest] = CURSOR.exec(cursor) ?? [];
  if (deviceId !== undefined) return { kind: 'device_secrets', after: { deviceId, keyVersion: Number(keyVersion) } };
  return matched === undefined
    ? { kind: 'device_secrets', after: null }
    : { kind: 'stored_answers', after: digest ?? null };
}

function cursorOf({ kind, after }: Place): string {
  if (after === null) return kind;
  return kind === 'stored_answers' ? `${kind}:${after}` : `${kind}:${after.deviceId}:${after.keyVersion}`;
}

/** No token, session, link or URL lives longer, and a process uses the keys with which it was started. */
async function unstoredUntil({ nodes }: Pick<Services, 'nodes'>): Promise<string> {
  const report = await nodes.report();
  const newest = Math.max(...report.nodes.map(({ startedAt }) => startedAt));
  return iso(Math.round(newest) + MAX_TOKEN_LIFE_S * 1000);
}

/** Examines and encrypts the rows of one request. */
class RekeyPass {
  examined = 0;
  resealed = 0;
  unreadable = 0;
  readonly #services: Pick<Services, 'clock' | 'masterKeys' | 'open' | 'seal' | 'store'>;
  readonly #dryRun: boolean;
  readonly #counts = new Map<string, Count>();

  constructor(services: Pick<Services, 'clock' | 'masterKeys' | 'open' | 'seal' | 'store'>, dryRun: boolean) {
    this.#services = services;
    this.#dryRun = dryRun;
  }

  counts(): Count[] {
    return [...this.#counts.values()];
  }

  /** Where the next page begins; null after the last one. */
  page(place: Place): Promise<Place | null> {
    return place.kind === 'device_secrets' ? this.#secrets(place.after) : this.#answers(place.after);
  }

  async #secrets(after: DeviceKeyPosition | null): Promise<Place> {
    const { sealedValues } = this.#services.store;
    const limit = PAGE_ROWS.device_secrets;
    const rows = await sealedValues.deviceSecrets(after, limit);
    const changes = rows.flatMap(({ deviceId, keyVersion, sealed }) => {
      const to = this.#reseal('device_secrets', sealed, secretBinding(deviceId, keyVersion));
      return to === null || sealed === null ? [] : [{ deviceId, keyVersion, from: sealed, to }];
    });
    this.#count('device_secrets', changes, await sealedValues.replaceSecrets(changes));
    const last = rows.at(-1);
    this.examined += rows.length;
    if (last === undefined || rows.length < limit) return { kind: 'stored_answers', after: null };
    return { kind: 'device_secrets', after: { deviceId: last.deviceId, keyVersion: last.keyVersion } };
  }

  async #answers(after: string | null): Promise<Place | null> {
    const { clock, store } = this.#services;
    const limit = PAGE_ROWS.stored_answers;
    const rows = await store.sealedValues.answers(after, limit);
    const now = clock.now();
    const changes = rows.flatMap(({ sealed, expiresAt, digest, ...request }) => {
      // An expired answer is never read.
      if (expiresAt <= now) return [];
      const to = this.#reseal('stored_answers', sealed, answerBinding(request));
      return to === null || sealed === null ? [] : [{ digest, from: sealed, to }];
    });
    this.#count('stored_answers', changes, await store.sealedValues.replaceAnswers(changes));
    const last = rows.at(-1);
    this.examined += rows.length;
    return last === undefined || rows.length < limit ? null : { kind: 'stored_answers', after: last.digest };
  }

  /** The value under the current key; null, and counted, if it stays as it is. */
  #reseal(kind: SealedKind, sealed: string | null, place: SealedPlace): string | null {
    const { masterKeys, open, seal } = this.#services;
    if (sealed === null) return null;
    const { keyId = '' } = sealedWith(sealed) ?? {};
    // Another node already uses the next key: this one must not undo that.
    const isNewer = masterKeys.keyIds.next === keyId;
    if (this.#dryRun || isNewer || masterKeys.isCurrent(sealed)) return this.#keep(kind, sealed);
    try {
      return seal(open(sealed, place), place);
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
      if (this.#nameOf(keyId) !== 'unknown') this.unreadable += 1;
      return this.#keep(kind, sealed);
    }
  }

  #keep(kind: SealedKind, sealed: string): null {
    this.#add(kind, sealed, 1);
    return null;
  }

  /** If another transaction has changed or holds one of the rows, all of them count as they were read. */
  #count(kind: SealedKind, changes: readonly { from: string; to: string }[], replaced: number): void {
    this.resealed += replaced;
    for (const { from, to } of changes) this.#add(kind, replaced === changes.length ? to : from, 1);
  }

  #add(kind: SealedKind, sealed: string, rows: number): void {
    const { form, keyId } = sealedWith(sealed) ?? { form: 's1' as const, keyId: '' };
    const counted = `${kind} ${form} ${keyId}`;
    const known = this.#counts.get(counted);
    if (known !== undefined) known.rows += rows;
    else
      this.#counts.set(counted, {
        kind,
        key: this.#nameOf(keyId),
        key_id: keyId,
        sub_key: form === 's2',
        rows,
      });
  }

  #nameOf(keyId: string): Count['key'] {
    const { keyIds } = this.#services.masterKeys;
    return keyNames.find((name) => name !== 'unknown' && keyIds[name] === keyId) ?? 'unknown';
  }
}
