import type { SealedCount, SealedValueStore } from '../../../src/store/contract/sealed-values.ts';
import { actorsOf } from './commands.ts';
import { actorKey, type Tables } from './database.ts';
import { idempotencyDigest, idempotencyKey } from './idempotency.ts';
import type { Session } from './session.ts';

const keyIdIn = (sealed: string): string => sealed.slice(3, 14);

const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);

const secretsOf = (tables: Tables) =>
  [...tables.deviceKeys]
    .flatMap(([deviceId, keys]) =>
      keys.map(({ keyVersion, sealedSecret: sealed, graceUntil, endedAt }) => {
        const ends = [graceUntil, endedAt].filter((at) => at !== null);
        return { deviceId, keyVersion, sealed, expiresAt: ends.length === 0 ? null : Math.min(...ends) };
      }),
    )
    .sort((a, b) => compare(a.deviceId, b.deviceId) || a.keyVersion - b.keyVersion);

const answersOf = (tables: Tables) =>
  tables.idempotency
    .where(() => true)
    .map((row) => ({ ...row, digest: idempotencyDigest(row) }))
    .sort((a, b) => compare(a.digest, b.digest));

function counted(kind: SealedCount['kind'], values: readonly (string | null)[], known: readonly string[]) {
  const counts = new Map<string, number>();
  for (const sealed of values) {
    if (sealed === null || sealed === '' || known.includes(keyIdIn(sealed))) continue;
    counts.set(keyIdIn(sealed), (counts.get(keyIdIn(sealed)) ?? 0) + 1);
  }
  return [...counts].map(([keyId, rows]): SealedCount => ({ kind, keyId, rows }));
}

interface WithSealed {
  sealedParams?: string | null;
  sealedCompensation?: string | null;
}

/** Parameters of commands that have a timer, and of plans that are not over. */
function parametersOf(tables: Tables): string[] {
  const timed = new Set([...tables.timers.values()].map(({ ref }) => actorKey(ref)));
  const commands = actorsOf(tables, 'command', ({ ref }) => timed.has(actorKey(ref)));
  const plans = actorsOf(tables, 'plan', ({ columns }) => columns.over === false);
  const holders: WithSealed[] = [
    ...commands.map(({ context }) => context as WithSealed),
    ...plans.flatMap(({ context }) => (context as { steps?: WithSealed[] }).steps ?? []),
  ];
  return holders.flatMap(({ sealedParams, sealedCompensation }) =>
    [sealedParams ?? [], sealedCompensation ?? []].flat(),
  );
}

export const sealedValueStore = (session: Session): SealedValueStore => ({
  count: () => session.read('sealedValues.count', [], (tables) => secretsOf(tables).length + answersOf(tables).length),
  deviceSecrets: (after, limit) =>
    session.read('sealedValues.deviceSecrets', [after, limit], (tables, after, limit) =>
      secretsOf(tables)
        .filter(
          ({ deviceId, keyVersion }) =>
            after === null || (compare(deviceId, after.deviceId) || keyVersion - after.keyVersion) > 0,
        )
        .slice(0, limit),
    ),
  answers: (after, limits) =>
    session.read('sealedValues.answers', [after, limits], (tables, after, { rows, bytes }) => {
      let total = 0;
      return answersOf(tables)
        .filter(({ digest }) => digest > (after ?? ''))
        .slice(0, rows)
        .filter(({ answer }, place) => {
          total += Buffer.byteLength(answer);
          return total <= bytes || place === 0;
        })
        .map(({ digest, principal, method, path, key, answer, expiresAt }) => {
          return { digest, principal, method, path, key, expiresAt, sealed: answer === '' ? null : answer };
        });
    }),
  replaceSecrets: (changes) =>
    session.write('sealedValues.replaceSecrets', [changes], (tables, changes) => {
      let replaced = 0;
      for (const { deviceId, keyVersion, from, to } of changes) {
        const keys = tables.deviceKeys.get(deviceId) ?? [];
        const next = keys.map((key) => {
          if (key.keyVersion !== keyVersion || key.sealedSecret !== from) return key;
          replaced += 1;
          return { ...key, sealedSecret: to };
        });
        tables.deviceKeys.set(deviceId, next);
      }
      return replaced;
    }),
  replaceAnswers: (changes) =>
    session.write('sealedValues.replaceAnswers', [changes], (tables, changes) => {
      const rows = new Map(answersOf(tables).map((row) => [row.digest, row]));
      let replaced = 0;
      for (const { digest, from, to } of changes) {
        const found = rows.get(digest);
        if (found?.answer !== from) continue;
        const { digest: _, ...row } = found;
        tables.idempotency.set(idempotencyKey(row), { ...row, answer: to });
        replaced += 1;
      }
      return replaced;
    }),
  parameters: () =>
    session.read('sealedValues.parameters', [], (tables) => {
      const counts = new Map<string, number>();
      for (const sealed of parametersOf(tables).sort()) {
        const prefix = sealed.slice(0, 14);
        counts.set(prefix, (counts.get(prefix) ?? 0) + 1);
      }
      return [...counts].map(([prefix, rows]) => ({ prefix, rows }));
    }),
  withOtherKeys: (known, now) =>
    session.read('sealedValues.withOtherKeys', [known, now], (tables, known, now) => [
      ...counted(
        'device_secrets',
        secretsOf(tables)
          .filter(({ expiresAt }) => expiresAt === null || expiresAt > now)
          .map(({ sealed }) => sealed),
        known,
      ),
      ...counted(
        'stored_answers',
        answersOf(tables)
          .filter(({ expiresAt }) => expiresAt > now)
          .map(({ answer }) => answer),
        known,
      ),
      ...counted('command_parameters', parametersOf(tables), known),
    ]),
});
