import { afterEach, expect, it } from 'vitest';
import { Runtime } from '../../../src/actors/runtime.ts';
import type { JsonObject, Uuid } from '../../../src/domain/values.ts';
import { deviceDefinition } from '../../../src/machines/device-record.ts';
import type { DeviceContext, DeviceEvent } from '../../../src/machines/device-types.ts';
import type { ActorRef } from '../../../src/machines/outputs.ts';
import { currentDefinition, definitionFor } from '../../../src/machines/versions.ts';
import { type ActorStore, CommitUnknown, type Store } from '../../../src/store/contract.ts';
import { HOME, HOUR, header, key, manifest, other, register, report, T0 } from '../../machines/samples.ts';
import { newId } from '../../support/actor-commits.ts';
import { testClock } from '../../support/clock.ts';
import { expectReached, fc } from '../../support/properties.ts';
import { type Backend, oneDatabase } from '../../support/store.ts';
import { flatContext } from '../../support/stored-context.ts';

type Next = (at: number, device: DeviceContext) => DeviceEvent;
type Ending = 'as it is' | 'unknown and kept' | 'unknown and not kept';

const received = ({ fixed: { keyVersion }, live: { replay } }: DeviceContext) =>
  header(replay.highest + 1, 'm', keyVersion);

const moves: fc.Arbitrary<Next> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.nat(3).map(
      (level): Next =>
        (at, d) => ({ ...report(0, { level }, { at }), header: received(d) }),
    ),
  },
  { weight: 3, arbitrary: fc.constant<Next>((at, d) => ({ type: 'heartbeat.received', at, header: received(d) })) },
  {
    weight: 2,
    arbitrary: fc.nat(2).map(
      (n): Next =>
        (at, d) => ({ type: 'hello.received', at, header: received(d), firmware: `1.${n}.0` }),
    ),
  },
  { weight: 1, arbitrary: fc.constant<Next>((at) => ({ type: 'presence.lost', at })) },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom(
        { name: 'x' },
        { name: 'y' },
        { homeId: null, roomId: null },
        { homeId: HOME },
        { metadata: { a: 1 } },
      )
      .map(
        (changes): Next =>
          (at) => ({ type: 'patch', at, changes }),
      ),
  },
  {
    weight: 1,
    arbitrary: fc.constant<Next>((at, { fixed: { keyVersion } }) => ({
      ...{ type: 'rotate', at, by: other, key: key(keyVersion + 1), graceUntil: at + HOUR },
    })),
  },
  { weight: 1, arbitrary: fc.constant<Next>((at) => ({ type: 'revoke', at, by: other })) },
  {
    weight: 1,
    arbitrary: fc.constant<Next>((at, { fixed: { keyVersion } }) => ({
      ...{ type: 'reinstate', at, by: other, reason: 'x', key: key(keyVersion + 1) },
    })),
  },
  {
    weight: 1,
    arbitrary: fc.constant<Next>((at, { fixed: { manifestVersion, id } }) => ({
      ...{ type: 'manifest.update', at, expectedVersion: manifestVersion },
      manifest: manifest(manifestVersion + 1, { deviceId: id, category: `c${manifestVersion}` }),
    })),
  },
);
const walks = fc.array(
  fc.record({
    process: fc.constantFrom(0, 0, 0, 1),
    moves: fc.array(moves, { minLength: 1, maxLength: 3 }),
    ending: fc.oneof(
      { weight: 6, arbitrary: fc.constant<Ending>('as it is') },
      { weight: 1, arbitrary: fc.constantFrom<Ending>('unknown and kept', 'unknown and not kept') },
    ),
    /** The process was restarted, with no actor in memory. */
    anew: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  }),
  { minLength: 4, maxLength: 16 },
);
type Walk = typeof walks extends fc.Arbitrary<infer T> ? T : never;

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const runtimes: Runtime[] = [];
afterEach(() => {
  for (const runtime of runtimes.splice(0)) runtime.halt();
});

oneDatabase('after random events of a device', (backend) => {
  const clock = testClock();
  let ending: Ending = 'as it is';
  let liveOnly = 0;
  let compared = 0;

  /** A separate process on the same rows. */
  function assemble(): Runtime {
    const { store } = backend();
    const commit: ActorStore['commit'] = async (commits, options) => {
      const how = ending;
      ending = 'as it is';
      if (how === 'unknown and not kept') throw new CommitUnknown('connection lost');
      const answer = await store.actors.commit(commits, options);
      liveOnly += commits.filter((actor) => actor.fixedUnchanged).length;
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

  const rowOf = async ({ database, store }: Backend, id: Uuid) => {
    const [columns] = await database.read<JsonObject>({ text: 'select * from devices where id = $1', values: [id] });
    const [actor] = await store.actors.load('device', [id]);
    if (actor === undefined) throw new Error('it is gone');
    return { ...actor, columns };
  };

  it('the row of a device equals its state, for any last writer', async () => {
    const walk = async (steps: Walk): Promise<void> => {
      const id = newId();
      const ref: ActorRef = { kind: 'device', id };
      const processes = [assemble(), assemble()];
      const { device } = register();
      const made = register({ device: { ...device, id }, manifest: manifest(1, { deviceId: id }) });
      await processes[0]?.actors.create(ref, made);
      let at = T0;
      for (const { process, moves: some, ending: how, anew } of steps) {
        if (anew) processes[process] = assemble();
        const { actors } = processes[process] as Runtime;
        const device = async () => {
          const found = await actors.read<DeviceContext>(ref);
          if (found === null) throw new Error('it is gone');
          return found;
        };
        const { context } = (await device()).snapshot;
        at += 1_000;
        ending = how;
        await Promise.all(some.map((move) => actors.send(ref, move(at, context))));
        ending = 'as it is';
        const row = await rowOf(backend(), id);
        const { version, snapshot } = await device();
        if (version !== row.version) continue; // had nothing to commit, so it did not detect the other process's commit
        // A heartbeat advances the replay window without a commit.
        expect({ ...row.context, replay: 0 }).toEqual({
          ...flatContext(deviceDefinition.toStored(snapshot.context)),
          replay: 0,
        });
        expect(row.columns).toMatchObject(deviceDefinition.columns(snapshot));
        compared += 1;
      }
    };
    await fc.assert(fc.asyncProperty(walks, walk), { numRuns: 25 });
    expectReached(() => {
      expect(liveOnly).toBeGreaterThan(10);
      expect(compared).toBeGreaterThan(50);
    });
  });
});
