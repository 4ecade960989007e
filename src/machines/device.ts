import { setup, stateIn } from 'xstate';
import { actionsFor, guardsFor } from './decision.ts';
import * as administration from './device-administration.ts';
import * as reports from './device-reports.ts';
import { type DeviceContext, type DeviceEvent, initialDevice } from './device-types.ts';
import type { Output } from './outputs.ts';

const action = actionsFor<DeviceContext, DeviceEvent>();
const guard = guardsFor<DeviceContext, DeviceEvent>();

/** How long the chart's timers run. */
const delays = {
  graceOver: ({ context, event }: { context: DeviceContext; event: DeviceEvent }) =>
    administration.graceLeft(context, event),
};
export type DeviceDelay = keyof typeof delays;

const base = setup({
  types: { context: {} as DeviceContext, events: {} as DeviceEvent, emitted: {} as Output },
  actions: {
    register: action(administration.register),
    patch: action(administration.patch),
    clearTags: action(administration.clearTags),
    rotate: action(administration.rotate),
    endGrace: action(administration.endGrace),
    revoke: action(administration.revoke),
    reinstate: action(administration.reinstate),
    registerManifest: action(administration.registerManifest),
    updateManifest: action(administration.updateManifest),
    refuseKey: action(administration.refuseKey),
    refuseRevoked: action(administration.refuseRevoked),
    refuseActive: action(administration.refuseActive),
    applyHello: action(reports.applyHello),
    applyHeartbeat: action(reports.applyHeartbeat),
    applyState: action(reports.applyState),
    applyAck: action(reports.applyAck),
    applyRejected: action(reports.applyRejected),
    importHistory: action(reports.importHistory),
    announceOnline: action(administration.presence(true)),
    announceOffline: action(administration.presence(false)),
  },
  guards: {
    isActive: stateIn({ administration: 'active' }),
    isKeyValid: guard(reports.isKeyValid),
    isKeyEnded: guard(reports.isKeyEnded),
    isNextKey: guard(administration.isNextKey),
    hasGraceExpired: guard(administration.hasGraceExpired),
    assignsPlace: guard(administration.assignsPlace),
  },
  delays,
});

// The first transition has no target: the device stays offline.
const firstMessage = [{ guard: 'isKeyEnded' }, { guard: 'isActive', target: 'online' }] as const;

/** The device machine: administration by users, and presence (contract §4). */
export const deviceMachine = base.createMachine({
  id: 'device',
  description: 'A device: its administration by users and, in parallel, its presence.',
  type: 'parallel',
  context: initialDevice,
  states: {
    administration: {
      initial: 'unregistered',
      states: {
        unregistered: {
          description: 'Not registered yet; not visible.',
          on: { register: { target: 'active', actions: 'register' } },
        },
        active: {
          description: 'Signs in, reports its state and receives commands.',
          initial: 'one_key',
          on: {
            patch: { actions: 'patch' },
            revoke: { target: 'revoked', actions: 'revoke' },
            reinstate: { actions: 'refuseActive' },
            delete: { actions: 'refuseActive' },
            'manifest.register': { actions: 'registerManifest' },
            'manifest.update': { actions: 'updateManifest' },
            'history.import': { actions: 'importHistory' },
            'hello.received': { guard: 'isKeyValid', actions: 'applyHello' },
            'heartbeat.received': { guard: 'isKeyValid', actions: 'applyHeartbeat' },
            'state.reported': { guard: 'isKeyValid', actions: 'applyState' },
            'ack.reported': { guard: 'isKeyValid', actions: 'applyAck' },
            'message.rejected': { guard: 'isKeyValid', actions: 'applyRejected' },
          },
          states: {
            one_key: {
              description: 'Only its current key verifies.',
              on: {
                rotate: [{ guard: 'isNextKey', target: 'two_keys', actions: 'rotate' }, { actions: 'refuseKey' }],
              },
            },
            two_keys: {
              description: 'After a rotation: the previous key still verifies until its grace period ends.',
              after: {
                // A timer of an earlier rotation may fire after a later rotation has reset it.
                graceOver: [
                  { guard: 'hasGraceExpired', target: 'one_key', actions: 'endGrace' },
                  { target: 'two_keys', reenter: true },
                ],
              },
              on: {
                rotate: [
                  { guard: 'isNextKey', target: 'two_keys', reenter: true, actions: 'rotate' },
                  { actions: 'refuseKey' },
                ],
              },
            },
          },
        },
        revoked: {
          description: 'Its keys are permanently invalid; its home, room and history are kept.',
          on: {
            patch: [{ guard: 'assignsPlace', actions: 'refuseRevoked' }, { actions: 'patch' }],
            rotate: { actions: 'refuseRevoked' },
            'manifest.register': { actions: 'refuseRevoked' },
            'manifest.update': { actions: 'refuseRevoked' },
            'history.import': { actions: 'refuseRevoked' },
            reinstate: [{ guard: 'isNextKey', target: 'active', actions: 'reinstate' }, { actions: 'refuseKey' }],
            delete: { target: 'deleted', actions: 'clearTags' },
          },
        },
        deleted: {
          description: 'Removed from all lists; its journal is kept.',
          type: 'final',
        },
      },
    },
    link: {
      initial: 'offline',
      states: {
        offline: {
          description: 'No session, or a session without a verified message yet.',
          on: {
            'hello.received': firstMessage,
            'heartbeat.received': firstMessage,
            'state.reported': firstMessage,
            'ack.reported': firstMessage,
            'message.rejected': firstMessage,
          },
        },
        online: {
          description:
            'A verified message arrived in this session, and the last one is less than three heartbeat intervals old.',
          entry: 'announceOnline',
          exit: 'announceOffline',
          on: { 'presence.lost': 'offline', revoke: 'offline' },
        },
      },
    },
  },
});
