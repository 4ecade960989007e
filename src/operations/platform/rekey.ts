import { z } from 'zod';
import { secretBinding } from '../../domain/device-key.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, refuse } from '../../domain/refusals.ts';
import { type MasterKeyIds, SealBroken, type SealedPlace, sealedWith } from '../../domain/sealing.ts';
import { CANONICAL_UUID } from '../../domain/uuid.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { MAX_TOKEN_LIFE_S } from '../../services/tokens.ts';
import type { ReportedNode } from '../../store/contract/cluster.ts';
import {
  type DeviceKeyPosition,
  type PageLimits,
  type SealedKind,
  sealedKinds,
} from '../../store/contract/sealed-values.ts';
import { answerBinding } from '../idempotency.ts';
import { isoTime } from '../inputs.ts';
import { operation, type Services } from '../operation.ts';

// Changes the key of stored values after a change of the master key, in batches that can be repeated.

/** Rows and bytes that one request examines, and those that one statement reads. Stored answers can be long. */
const PER_REQUEST: PageLimits = { rows: 5_000, bytes: 32_000_000 };
const SECRETS_PER_PAGE = 500;
const ANSWERS_PER_PAGE: PageLimits = { rows: 200, bytes: 2_000_000 };

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
      description:
        '`device_secrets`: of HMAC devices; `stored_answers`: of requests with an `Idempotency-Key`; `command_parameters`: ' +
        '`writeOnly` parameters of commands and plans that wait, which are dropped and never encrypted again',
    }),
    key: z.enum(keyNames).meta({ description: 'Which of the configured master keys; `unknown`: none of them' }),
    key_id: z.string().meta({ description: 'Id of the master key, as in the values' }),
    sub_key: z.boolean().meta({ description: 'False: encrypted with the master key itself, as by version 1.0.0' }),
    rows: z.int(),
  })
  .meta({ id: 'SealedCount' });

type Count = z.infer<typeof count>;

const keyIds = z
  .object({ current: z.string(), next: z.string().nullable(), previous: z.string().nullable() })
  .meta({ id: 'MasterKeyIds', description: 'Ids of the configured keys' });

const otherNode = z
  .object({
    node_id: uuid,
    address: z.string().meta({ description: 'Host and port of its HTTP server' }),
    master_keys: keyIds.nullable().meta({ description: 'Null: the node has not reported its keys' }),
  })
  .meta({ id: 'NodeWithOtherKey' });

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
    master_keys: keyIds,
    total: z.int().nullable().meta({ description: 'Number of rows to examine; null if the request continues' }),
    examined: z.int().meta({ description: 'Rows that this request examined' }),
    resealed: z.int().meta({ description: 'Values that it encrypted with the current key' }),
    unreadable: z.int().meta({ description: 'Values that name a configured key and cannot be decrypted with it' }),
    values: z.array(count).meta({ description: 'The examined values after this request, by their key' }),
    continue_after: z.string().nullable().meta({ description: 'Null: no rows are left' }),
    other_nodes: z.array(otherNode).meta({
      description:
        'Live nodes that do not encrypt with this current key, or have not reported their keys: as long as there are any, ' +
        'values of other keys may be added',
    }),
    unstored_until: isoTime.nullable().meta({
      description:
        'Until then browser sessions, sign-in links and artifact URLs may depend on the previous key: they are not ' +
        'encrypted again, and expire. Null without a previous key',
    }),
  }),
  changes: true,
  inMaintenance: true,
  refuses: ['VALIDATION_FAILED', 'CONFLICT'],
  example: {
    input: { dry_run: false },
    output: {
      master_keys: { current: 'fV3hGm0nB1s', next: null, previous: 'x9Q2pWz7KdE' },
      ...{ total: 2, examined: 2, resealed: 1, unreadable: 0 },
      values: [{ kind: 'device_secrets', key: 'current', key_id: 'fV3hGm0nB1s', sub_key: true, rows: 2 }],
      continue_after: null,
      other_nodes: [],
      unstored_until: '2026-03-02T12:00:00.000Z',
    },
  },
  auditSubject: () => 'service',
  needs: ['clock', 'log', 'masterKeys', 'nodes', 'open', 'seal', 'store'],
  async run(services, { input }) {
    const { masterKeys, log, nodes, store } = services;
    const live = (await nodes.report()).nodes;
    const refused = input.dry_run ? null : refuseWithout(masterKeys.keyIds.current, live);
    if (refused !== null) return refused;
    const pass = new RekeyPass(services, input.dry_run);
    const total = input.after === undefined ? await store.sealedValues.count() : null;
    let place: Place | null = placeOf(input.after);
    while (place !== null && !pass.isFull) place = await pass.page(place);
    const { examined, resealed, unreadable } = pass;
    if (resealed > 0) log.info({ resealed, key_id: masterKeys.keyIds.current }, 'stored secrets encrypted again');
    return done({
      body: {
        master_keys: { ...masterKeys.keyIds },
        ...{ total, examined, resealed, unreadable, values: pass.counts() },
        continue_after: place === null ? null : cursorOf(place),
        other_nodes: live.filter((node) => keysOf(node)?.current !== masterKeys.keyIds.current).map(otherNodeBody),
        unstored_until: masterKeys.keyIds.previous === null ? null : unstoredUntil(live),
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
function unstoredUntil(live: readonly ReportedNode[]): string {
  const newest = Math.max(...live.map(({ startedAt }) => startedAt));
  return iso(Math.round(newest) + MAX_TOKEN_LIFE_S * 1000);
}

const keysOf = ({ figures }: ReportedNode): MasterKeyIds | null => figures?.masterKeys ?? null;

const otherNodeBody = (node: ReportedNode) => {
  const keys = keysOf(node);
  return { node_id: node.id, address: node.address, master_keys: keys && { ...keys } };
};

/** Null if every node decrypts with the key: a node that does not would refuse the devices of these secrets. */
function refuseWithout(key: string, live: readonly ReportedNode[]): ReturnType<typeof refuse> | null {
  for (const node of live) {
    const keys = keysOf(node);
    if (keys === null) {
      return refuse(
        'CONFLICT',
        `The node ${node.address} has not reported its master keys. A node that starts reports them within seconds: repeat ` +
          'the request. A node of an earlier version does not report them: update it first.',
      );
    }
    if (![keys.current, keys.next, keys.previous].includes(key)) {
      return refuse(
        'CONFLICT',
        `The node ${node.address} does not have the master key ${key}, and could not decrypt what is encrypted with it: ` +
          'start it with the key as MASTER_KEY_NEXT or MASTER_KEY.',
      );
    }
  }
  return null;
}

/** Examines and encrypts the rows of one request. */
class RekeyPass {
  examined = 0;
  /** Of the examined answers. */
  #bytes = 0;
  resealed = 0;
  unreadable = 0;
  readonly #services: Pick<Services, 'clock' | 'masterKeys' | 'open' | 'seal' | 'store'>;
  readonly #dryRun: boolean;
  readonly #counts = new Map<string, Count>();

  constructor(services: Pick<Services, 'clock' | 'masterKeys' | 'open' | 'seal' | 'store'>, dryRun: boolean) {
    this.#services = services;
    this.#dryRun = dryRun;
  }

  get isFull(): boolean {
    return this.examined >= PER_REQUEST.rows || this.#bytes >= PER_REQUEST.bytes;
  }

  counts(): Count[] {
    return [...this.#counts.values()];
  }

  /** Where the next page begins; null after the last one. */
  page(place: Place): Promise<Place | null> {
    return place.kind === 'device_secrets' ? this.#secrets(place.after) : this.#answers(place.after);
  }

  async #secrets(after: DeviceKeyPosition | null): Promise<Place> {
    const { clock, store } = this.#services;
    const { sealedValues } = store;
    const rows = await sealedValues.deviceSecrets(after, SECRETS_PER_PAGE);
    const now = clock.now();
    const changes = rows.flatMap(({ deviceId, keyVersion, sealed, expiresAt }) => {
      // An ended key never verifies again.
      if (expiresAt !== null && expiresAt <= now) return [];
      const to = this.#reseal('device_secrets', sealed, secretBinding(deviceId, keyVersion));
      return to === null || sealed === null ? [] : [{ deviceId, keyVersion, from: sealed, to }];
    });
    this.#count('device_secrets', changes, await sealedValues.replaceSecrets(changes));
    const last = rows.at(-1);
    this.examined += rows.length;
    if (last === undefined || rows.length < SECRETS_PER_PAGE) return { kind: 'stored_answers', after: null };
    return { kind: 'device_secrets', after: { deviceId: last.deviceId, keyVersion: last.keyVersion } };
  }

  async #answers(after: string | null): Promise<Place | null> {
    const { clock, store } = this.#services;
    const rows = await store.sealedValues.answers(after, ANSWERS_PER_PAGE);
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
    this.#bytes += rows.reduce((sum, { sealed }) => sum + (sealed?.length ?? 0), 0);
    if (last !== undefined) return { kind: 'stored_answers', after: last.digest };
    for (const { prefix, rows } of await store.sealedValues.parameters()) this.#add('command_parameters', prefix, rows);
    return null;
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

  /** `sealed` is a value, or its beginning with form and key id. */
  #add(kind: SealedKind, sealed: string, rows: number): void {
    const { form, keyId } = sealedWith(sealed) ?? sealedWith(`${sealed}.0`) ?? { form: 's1' as const, keyId: '' };
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
