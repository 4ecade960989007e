import { setup } from 'xstate';
import { z } from 'zod';
import type { AddressedEvent } from '../../src/actors/contract.ts';
import type { JsonObject, Uuid } from '../../src/domain/values.ts';
import { actionsFor } from '../../src/machines/decision.ts';
import type { MachineDefinition, MachineEvent } from '../../src/machines/definition.ts';
import type { ActorRef, Output } from '../../src/machines/outputs.ts';

/**
 * A message `[recipient, text]`. An actor that receives the text `>x>rest` forwards `rest` to x; `THROWS` makes the
 * receiver throw, and `UNSTORABLE` makes the receiver's new context impossible to store.
 */
export type RelayedMessage = [recipient: Uuid, text: string];
export const THROWS = 'boom';
export const UNSTORABLE = 'unstorable';
/**
 * Sent to an actor that does not exist yet: the resolver of `plan.ask` creates it, and the new actor answers `CREATED`.
 */
export const CREATE = 'create';
export const CREATED = 'created';

interface RelayContext {
  fixed: { id: Uuid };
  live: { sent: RelayedMessage[]; received: RelayedMessage[] };
}

type SendEvent = MachineEvent & { type: 'send'; messages: RelayedMessage[] };
type ReceiveEvent = MachineEvent & { type: 'state.observed'; deviceId: Uuid; observed: { text: string } };
type CreateEvent = MachineEvent & { type: 'create'; id: Uuid; createdBy?: Uuid };
type Event = SendEvent | ReceiveEvent | CreateEvent;

const action = actionsFor<RelayContext, Event>();

export const relayRef = (id: Uuid): ActorRef => ({ kind: 'device', id });

const outputFor = (id: Uuid, [to, text]: RelayedMessage): Output =>
  text === CREATE
    ? { type: 'plan.ask', planId: id, stepId: CREATE, commandId: to }
    : {
        type: 'actor.tell',
        to: relayRef(to),
        event: { type: 'state.observed', deviceId: id, observed: { text }, matches: true },
      };

/** Resolves a `plan.ask` of a relay actor. */
export function resolveCreate({ planId, commandId }: { planId: Uuid; commandId: Uuid }): AddressedEvent {
  const event: CreateEvent = { type: 'create', at: 0, id: commandId, createdBy: planId };
  return { to: relayRef(commandId), event, create: true };
}

/** A test actor that records its sent and received messages, each in order. */
export const relayMachine: MachineDefinition<RelayContext> = {
  kind: 'device',
  version: 1,
  machine: setup({
    types: {} as { context: RelayContext; events: Event; emitted: Output },
    actions: {
      create: action((_, { id, createdBy }: CreateEvent) => {
        const sent: RelayedMessage[] = createdBy === undefined ? [] : [[createdBy, CREATED]];
        return {
          changes: { fixed: { id }, live: { sent, received: [] } },
          outputs: sent.map((one) => outputFor(id, one)),
        };
      }),
      send: action(({ fixed, live }, { messages }: SendEvent) => ({
        changes: { live: { ...live, sent: [...live.sent, ...messages] } },
        outputs: messages.map((message) => outputFor(fixed.id, message)),
      })),
      receive: action(({ fixed, live: { sent, received } }, { deviceId, observed: { text } }: ReceiveEvent) => {
        if (text === THROWS) throw new Error(THROWS);
        const [, to, forwardedText] = /^>([^>]+)>(.*)$/.exec(text) ?? [];
        const forwarded: RelayedMessage[] =
          to === undefined || forwardedText === undefined ? [] : [[to, forwardedText]];
        return {
          changes: { live: { sent: [...sent, ...forwarded], received: [...received, [deviceId, text]] } },
          outputs: forwarded.map((one) => outputFor(fixed.id, one)),
        };
      }),
    },
  }).createMachine({
    id: 'relay',
    context: { fixed: { id: '' }, live: { sent: [], received: [] } },
    initial: 'none',
    states: {
      none: { on: { create: { target: 'created', actions: 'create' } } },
      created: { on: { send: { actions: 'send' }, 'state.observed': { actions: 'receive' } } },
    },
  }),
  tenantOf: () => 't',
  toStored: ({ fixed, live }) => ({ fixed, live: live as unknown as JsonObject }),
  storedSchema: z.strictObject({}),
  fromStored(stored) {
    const { id, sent, received } = stored as unknown as RelayContext['fixed'] & RelayContext['live'];
    return { fixed: { id }, live: { sent, received } };
  },
  columns: () => ({}),
  journal: () => ({ data: null }),
  canPassivate: () => false,
  isTransient: () => false,
  toAdminView: ({ fixed, live }) => ({ ...fixed, ...live }) as unknown as JsonObject,
};

/** The same machine, whose actor `id` expects messages from `others`. */
export const relayMachineExpecting = (id: Uuid, ...others: Uuid[]): MachineDefinition<RelayContext> => ({
  ...relayMachine,
  expectsMessagesFrom: ({ context }) => (context.fixed.id === id ? others.map(relayRef) : []),
});
