import { setup } from 'xstate';
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
export const UNSTORABLE = 'venom';
/**
 * Sent to an actor that does not exist yet: the resolver of `plan.ask` creates it, and the new actor answers `CREATED`.
 */
export const CREATE = 'come';
export const CREATED = 'here';

interface RelayContext {
  fixed: { id: Uuid };
  live: { said: RelayedMessage[]; heard: RelayedMessage[] };
}

type SendEvent = MachineEvent & { type: 'say'; words: RelayedMessage[] };
type ReceiveEvent = MachineEvent & { type: 'state.observed'; deviceId: Uuid; observed: { word: string } };
type CreateEvent = MachineEvent & { type: 'make'; id: Uuid; calledBy?: Uuid };
type Event = SendEvent | ReceiveEvent | CreateEvent;

const action = actionsFor<RelayContext, Event>();

export const relayRef = (id: Uuid): ActorRef => ({ kind: 'device', id });

const outputFor = (id: Uuid, [to, text]: RelayedMessage): Output =>
  text === CREATE
    ? { type: 'plan.ask', planId: id, stepId: CREATE, commandId: to }
    : {
        type: 'actor.tell',
        to: relayRef(to),
        event: { type: 'state.observed', deviceId: id, observed: { word: text }, matches: true },
      };

/** Resolves a `plan.ask` of a relay actor. */
export const resolveCreate = ({ planId, commandId }: { planId: Uuid; commandId: Uuid }): AddressedEvent => ({
  to: relayRef(commandId),
  event: { type: 'make', at: 0, id: commandId, calledBy: planId } as MachineEvent,
  create: true,
});

/** A test actor that records its sent and received messages, each in order. */
export const relayMachine: MachineDefinition<RelayContext> = {
  kind: 'device',
  version: 1,
  machine: setup({
    types: {} as { context: RelayContext; events: Event; emitted: Output },
    actions: {
      make: action((_, { id, calledBy }: CreateEvent) => {
        const said: RelayedMessage[] = calledBy === undefined ? [] : [[calledBy, CREATED]];
        return {
          changes: { fixed: { id }, live: { said, heard: [] } },
          outputs: said.map((one) => outputFor(id, one)),
        };
      }),
      say: action(({ fixed, live }, { words }: SendEvent) => ({
        changes: { live: { ...live, said: [...live.said, ...words] } },
        outputs: words.map((word) => outputFor(fixed.id, word)),
      })),
      hear: action(({ fixed, live: { said, heard } }, { deviceId, observed: { word } }: ReceiveEvent) => {
        if (word === THROWS) throw new Error(THROWS);
        const [, to, forwardedText] = /^>([^>]+)>(.*)$/.exec(word) ?? [];
        const forwarded: RelayedMessage[] =
          to === undefined || forwardedText === undefined ? [] : [[to, forwardedText]];
        return {
          changes: { live: { said: [...said, ...forwarded], heard: [...heard, [deviceId, word]] } },
          outputs: forwarded.map((one) => outputFor(fixed.id, one)),
        };
      }),
    },
  }).createMachine({
    id: 'gossip',
    context: { fixed: { id: '' }, live: { said: [], heard: [] } },
    initial: 'none',
    states: {
      none: { on: { make: { target: 'there', actions: 'make' } } },
      there: { on: { say: { actions: 'say' }, 'state.observed': { actions: 'hear' } } },
    },
  }),
  tenantOf: () => 't',
  toStored: ({ fixed, live }) => ({ fixed, live: live as unknown as JsonObject }),
  fromStored(stored) {
    const { id, said, heard } = stored as unknown as RelayContext['fixed'] & RelayContext['live'];
    return { fixed: { id }, live: { said, heard } };
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
