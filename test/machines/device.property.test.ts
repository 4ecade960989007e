import { describe, expect, it } from 'vitest';
import { twinOf } from '../../src/domain/twin.ts';
import { administrationOf, deviceDefinition, isOnline } from '../../src/machines/device-record.ts';
import type { DeviceContext, DeviceEvent, DeviceLive } from '../../src/machines/device-types.ts';
import { fc, runs } from '../support/properties.ts';
import type { Driven, Step } from './machine-driver.ts';
import { unreached, untaken } from './random-walk.ts';
import {
  ack,
  blankDevice,
  HOME,
  HOUR,
  header,
  key,
  manifest,
  ofType,
  other,
  register,
  report,
  T0,
  typesOf,
} from './samples.ts';

type Device = Driven<DeviceContext, DeviceEvent>;
type Move = 'timer' | ((at: number, device: DeviceContext) => DeviceEvent);

const GRACE_OVER = 'xstate.after.graceOver.device.administration.active.two_keys';

const headers = fc.record({
  ahead: fc.integer({ min: -70, max: 5 }),
  messageId: fc.constantFrom('a', 'b', 'c'),
  /** Number of key versions before the current one. */
  back: fc.constantFrom(0, 0, 0, 1, 2),
});
const states = fc.dictionary(
  fc.constantFrom('a', 'b', 'c', '__proto__'),
  fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.parse(JSON.stringify(value))), // without `-0`, which JSON keeps as 0
) as fc.Arbitrary<DeviceLive['state']>;
const withHeader = (make: (message: ReturnType<typeof header>, at: number) => DeviceEvent): fc.Arbitrary<Move> =>
  headers.map(
    ({ ahead, messageId, back }) =>
      (at: number, { fixed: { keyVersion }, live: { replay } }: DeviceContext) => {
        return make(header(replay.highest + ahead, messageId, keyVersion - back), at);
      },
  );

const moves: fc.Arbitrary<Move> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Move>('timer') },
  {
    weight: 8,
    arbitrary: fc.tuple(headers, states, fc.boolean()).map(([{ ahead, messageId, back }, state, full]): Move => {
      return (at, { fixed: { keyVersion }, live: { replay } }) =>
        report(0, state, { at, full, header: header(replay.highest + ahead, messageId, keyVersion - back) });
    }),
  },
  { weight: 3, arbitrary: withHeader((message, at) => ack(0, { at, header: message, state: { a: at } })) },
  { weight: 1, arbitrary: withHeader((message, at) => ack(0, { at, header: message, known: false })) },
  { weight: 3, arbitrary: withHeader((message, at) => ({ type: 'heartbeat.received', at, header: message })) },
  {
    weight: 1,
    arbitrary: withHeader((message, at) => ({
      type: 'message.rejected',
      at,
      header: message,
      code: 'PAYLOAD_INVALID',
    })),
  },
  {
    weight: 2,
    arbitrary: withHeader((message, at) => ({
      type: 'hello.received',
      at,
      header: message,
      firmware: `1.${at % 3}.0`,
    })),
  },
  { weight: 3, arbitrary: fc.constant<Move>((at) => ({ type: 'presence.lost', at })) },
  {
    weight: 5,
    arbitrary: fc.integer({ min: 0, max: 2 }).map((up): Move => {
      return (at, { fixed: { keyVersion } }) => ({
        type: 'rotate',
        at,
        by: other,
        key: key(keyVersion + up),
        graceUntil: at + 24 * HOUR,
      });
    }),
  },
  { weight: 2, arbitrary: fc.constant<Move>((at) => ({ type: 'revoke', at, by: other })) },
  {
    weight: 4,
    arbitrary: fc.integer({ min: 0, max: 2 }).map((up): Move => {
      return (at, { fixed: { keyVersion } }) => ({
        type: 'reinstate',
        at,
        by: other,
        reason: 'x',
        key: key(keyVersion + up),
      });
    }),
  },
  { weight: 1, arbitrary: fc.constant<Move>((at) => ({ type: 'delete', at, by: other })) },
  {
    weight: 2,
    arbitrary: fc.boolean().map((current): Move => {
      return (at, { fixed: { manifestVersion } }) => ({
        type: current ? 'manifest.update' : 'manifest.register',
        ...{ at, manifest: manifest(1), expectedVersion: manifestVersion },
      });
    }),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom({ name: 'x' }, { homeId: null }, { homeId: HOME }).map((changes): Move => {
      return (at) => ({ type: 'patch', at, changes });
    }),
  },
  {
    weight: 1,
    arbitrary: fc.constant<Move>((at) => ({
      ...{ type: 'history.import', at, by: other, reports: [{ deviceAt: T0 - HOUR, state: { level: 1 } }] },
    })),
  },
  // A timer of an earlier rotation that has already been fired.
  { weight: 1, arbitrary: fc.constant<Move>((at) => ({ type: GRACE_OVER, at }) as never) },
);
const walks = fc.array(fc.record({ move: moves, pause: fc.oneof(fc.nat(5_000), fc.nat(30 * HOUR)) }), {
  maxLength: 40,
});
type Walk = typeof walks extends fc.Arbitrary<infer T> ? T : never;

function go(walk: Walk, look: (device: Device, step: Step, before: Device['snapshot']) => void): void {
  const device = blankDevice();
  let before = device.snapshot;
  look(device, device.send(register()), before);
  let at = T0;
  for (const { move, pause } of walk) {
    before = device.snapshot;
    if (move !== 'timer') {
      at += pause;
      look(device, device.send(move(at, device.context)), before);
    } else if (device.running.size > 0) {
      at = Math.max(at, Math.min(...[...device.running.values()].map((timer) => timer.dueAt)));
      look(device, device.fire(), before);
    }
  }
}

const holds = (look: () => (device: Device, step: Step, before: Device['snapshot']) => void) =>
  fc.assert(
    fc.property(walks, (walk) => go(walk, look())),
    runs(50),
  );

describe('for random events of a device', () => {
  it('every transition of its chart is taken', () => {
    expect(untaken(deviceDefinition, { walks, most: 400, go: (walk) => go(walk, () => {}) })).toEqual([]);
  });

  it('every state of its chart is reached', () => {
    const left = unreached(
      deviceDefinition,
      { walks, most: 400, go: (walk, saw) => go(walk, ({ snapshot }) => saw(snapshot.value)) },
      blankDevice().snapshot.value,
    );
    expect(left).toEqual([]);
  });

  it('its versions never decrease, and each key version is used once', () => {
    holds(() => {
      const given = new Set<number>();
      return (device, step, before) => {
        const was = before.context as DeviceContext;
        expect(device.context.live.stateVersion).toBeGreaterThanOrEqual(was.live.stateVersion);
        expect(device.context.fixed.manifestVersion).toBeGreaterThanOrEqual(was.fixed.manifestVersion);
        for (const { key: put } of ofType(step.outputs, 'key.put')) {
          expect(given.has(put.keyVersion)).toBe(false);
          expect(put.keyVersion).toBe(device.context.fixed.keyVersion);
          given.add(put.keyVersion);
        }
      };
    });
  });

  it('its replay window never goes back, except by a reinstatement', () => {
    holds(() => (device, step, before) => {
      const anew = (before.value as { administration: unknown }).administration === 'revoked' && !step.same;
      if (!anew) {
        expect(device.context.live.replay.highest).toBeGreaterThanOrEqual(
          (before.context as DeviceContext).live.replay.highest,
        );
      }
    });
  });

  it('its state changes with an accepted message and its version, and is published', () => {
    holds(() => (device, step, before) => {
      const was = before.context as DeviceContext;
      const states = ofType(step.outputs, 'device.state');
      expect(device.context.live.stateVersion - was.live.stateVersion).toBe(states.length);
      if (states.length === 0) expect(device.context.live.state).toBe(was.live.state);
      else {
        expect(states[0]).toMatchObject({ stateVersion: device.context.live.stateVersion });
        expect(typesOf(step.outputs)[0]).toBe('message.accepted');
      }
      expect(device.context.live.reported.bytes).toBe(twinOf(device.context.live.state).bytes);
    });
  });

  it('only an active device is online, and each change is published', () => {
    holds(() => (device, step, before) => {
      const online = isOnline(device.asSnapshot());
      if (online) expect(administrationOf(device.asSnapshot())).toBe('active');
      const changed = online !== isOnline(before as never);
      expect(ofType(step.outputs, 'device.presence').map((output) => output.online)).toEqual(changed ? [online] : []);
    });
  });

  it('a grace period ends with its timer', () => {
    holds(() => (device) => {
      const { grace } = device.context.fixed;
      expect([...device.running.values()].map(({ dueAt }) => dueAt)).toEqual(grace ? [grace.until] : []);
    });
  });

  it('a message has at most one response, and none from a revoked device', () => {
    const answers = ['message.accepted', 'message.refused', 'hello.accepted', 'refused'];
    holds(() => (_, step, before) => {
      const responses = typesOf(step.outputs).filter((type) => answers.includes(type));
      expect(responses.length).toBeLessThanOrEqual(1);
      if (administrationOf(before as never) !== 'active') {
        expect(responses.filter((type) => type !== 'refused')).toEqual([]);
      }
    });
  });

  it('deleted is final', () => {
    holds(() => (_, step, before) => {
      if (administrationOf(before as never) === 'deleted')
        expect(step).toEqual({ same: true, outputs: [], timers: [] });
    });
  });

  it('it behaves the same after it was stored and loaded', () => {
    holds(() => (device) => {
      const { value, context } = device;
      device.reload();
      expect(device.value).toEqual(value);
      expect(device.context).toEqual(context);
    });
  });
});
