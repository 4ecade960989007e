import { afterEach, expect, it } from 'vitest';
import { Runtime } from '../../../src/actors/runtime.ts';
import type { Uuid } from '../../../src/domain/values.ts';
import type { CommandEvent } from '../../../src/machines/command-types.ts';
import { currentDefinition, definitionFor } from '../../../src/machines/versions.ts';
import { type ActorStore, CommitUnknown, DataRefused, type Store } from '../../../src/store/contract.ts';
import { ackReceived, confirm, HOUR, observed, other, ready, request } from '../../machines/samples.ts';
import { newId } from '../../support/actor-commits.ts';
import { testClock } from '../../support/clock.ts';
import { expectReached, fc } from '../../support/properties.ts';
import { oneDatabase } from '../../support/store.ts';

type Move = (at: number, deviceId: Uuid) => CommandEvent;
type Ending = 'as it is' | 'refused' | 'unknown and kept' | 'unknown and not kept';

const sessions = fc.constantFrom('s1', 's2');
const moves: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .constantFrom('accepted' as const, 'in_progress' as const, 'succeeded' as const, 'failed' as const)
      .map(
        (word): Move =>
          (at, deviceId) => ({ ...ackReceived(word, at), deviceId }),
      ),
  },
  {
    weight: 4,
    arbitrary: sessions.map(
      (session): Move =>
        (at) =>
          ready(session, at),
    ),
  },
  {
    weight: 3,
    arbitrary: sessions.map(
      (sessionId): Move =>
        (at) => ({ type: 'write.undone', at, sessionId }),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.boolean().map(
      (matches): Move =>
        (at, deviceId) => ({ ...observed(matches, at), deviceId }),
    ),
  },
  {
    weight: 3,
    arbitrary: fc.option(sessions.map((sessionId) => ({ sessionId }))).map(
      (session): Move =>
        (at) =>
          confirm({ at, session }),
    ),
  },
  { weight: 1, arbitrary: fc.constant<Move>((at) => ({ type: 'cancel', at, by: other })) },
  { weight: 1, arbitrary: fc.constant<Move>((at, deviceId) => ({ type: 'device.revoked', at, deviceId })) },
);
const requests = fc.record({
  action: fc.constantFrom(
    { action: 'set_brightness', params: { level: 70 } },
    { action: 'unlock', params: {} },
    { action: 'blink', params: {} },
    { action: 'fly', params: {} },
  ),
  session: fc.option(fc.constant('s1')),
});
const walks = fc.record({
  requests: fc.array(requests, { minLength: 2, maxLength: 4 }),
  steps: fc.array(
    fc.record({
      process: fc.constantFrom(0, 0, 0, 1),
      moves: fc.array(fc.tuple(fc.nat(3), moves), { maxLength: 4 }),
      pause: fc.oneof(fc.nat(2_000), fc.nat(40_000), fc.constantFrom(HOUR, 25 * HOUR)),
      ending: fc.oneof(
        { weight: 6, arbitrary: fc.constant<Ending>('as it is') },
        { weight: 2, arbitrary: fc.constantFrom<Ending>('refused', 'unknown and kept', 'unknown and not kept') },
      ),
      /** The process was restarted, with no actor in memory. */
      anew: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
    }),
    { minLength: 4, maxLength: 14 },
  ),
});
type Walk = typeof walks extends fc.Arbitrary<infer T> ? T : never;

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const runtimes: Runtime[] = [];
afterEach(() => {
  for (const runtime of runtimes.splice(0)) runtime.halt();
});

oneDatabase('after random events of the commands of a device', (backend) => {
  const clock = testClock();
  let ending: Ending = 'as it is';
  const found = { open: 0, pending: 0, watching: 0, awaiting: 0 };

  /** A separate process on the same rows. */
  function assemble(): Runtime {
    const { store } = backend();
    const commit: ActorStore['commit'] = async (...batch) => {
      const how = ending;
      if (how === 'refused') throw new DataRefused('22P05', 'unsupported Unicode escape sequence');
      ending = 'as it is';
      if (how === 'unknown and not kept') throw new CommitUnknown('connection lost');
      const answer = await store.actors.commit(...batch);
      if (how === 'unknown and kept') throw new CommitUnknown('connection lost');
      return answer;
    };
    const around: Store = { ...store, actors: { ...store.actors, commit } };
    const runtime = new Runtime({
      ...{ store: around, clock, log: silent, limits: {} },
      definitions: (kind, version) => (version === undefined ? currentDefinition(kind) : definitionFor(kind, version)),
    });
    runtimes.push(runtime);
    return runtime;
  }

  const idsOf = async (condition: string, ...values: (string | number)[]): Promise<Uuid[]> => {
    const text = `select id from commands where ${condition}`;
    return (await backend().database.read<{ id: Uuid }>({ text, values })).map(({ id }) => id);
  };

  async function compare(deviceId: Uuid, tenantId: Uuid): Promise<void> {
    const { commands } = backend().store;
    const going = "device_id = $1 and status in ('dispatched', 'acknowledged', 'in_progress')";
    const inOrder = 'order by created_at, id';
    const wanted = {
      open: await idsOf(
        `device_id = $1 and status not in ('rejected', 'succeeded', 'failed', 'timed_out', 'expired', 'cancelled') ${inOrder}`,
        deviceId,
      ),
      pending: await idsOf(`${going} and not (critical and written) ${inOrder}`, deviceId),
      watching: await idsOf("verification = 'pending' order by id"),
      awaiting: await idsOf(
        `tenant_id = $1 and status = 'awaiting_confirmation' and (context->'confirmation'->>'expiresAt')::bigint > $2
          order by created_at desc, id desc`,
        tenantId,
        clock.now(),
      ),
    };
    expect({
      open: await commands.open(deviceId),
      pending: await commands.deliverable(deviceId),
      watching: (await commands.awaitingVerification()).map(({ commandId }) => commandId),
      awaiting: (
        await Promise.all(
          [false, true].map((dryRuns) => commands.awaitingConfirmation(tenantId, { now: clock.now(), dryRuns }, 100)),
        )
      ).flatMap(({ items }) => items.map(({ ref }) => ref.id)),
    }).toEqual(wanted);
    for (const name of Object.keys(found) as (keyof typeof found)[]) found[name] += wanted[name].length;
  }

  it('partial indexes find the same open, pending, watched and waiting commands as a full scan', async () => {
    const walk = async ({ requests: requested, steps }: Walk): Promise<void> => {
      const [deviceId, tenantId] = [newId(), newId()];
      const processes = [assemble(), assemble()];
      const ids = requested.map(() => newId());
      await Promise.all(
        requested.map(({ action, session }, index) => {
          const id = ids[index] as Uuid;
          const event = request({ ...action, session, at: clock.now() });
          const command = { ...event.command, id, deviceId, tenantId };
          return processes[0]?.actors.create({ kind: 'command', id }, { ...event, command } as CommandEvent);
        }),
      );
      await compare(deviceId, tenantId);
      for (const { process, moves: some, pause, ending: how, anew } of steps) {
        if (anew) processes[process] = assemble();
        const { actors, timers } = processes[process] as Runtime;
        clock.advance(pause);
        ending = how;
        await Promise.allSettled([
          timers.tick(),
          ...some.map(([index, move]) => {
            const id = ids[index % ids.length] as Uuid;
            return actors.send({ kind: 'command', id }, move(clock.now(), deviceId));
          }),
        ]);
        ending = 'as it is';
        await compare(deviceId, tenantId);
      }
    };
    await fc.assert(fc.asyncProperty(walks, walk), { numRuns: 30 });
    expectReached(() => expect(Math.min(...Object.values(found))).toBeGreaterThan(20));
  });
});
