import { setup } from 'xstate';
import type { AddressedEvent } from '../../src/actors/contract.ts';
import type { JsonObject, Uuid } from '../../src/domain/values.ts';
import { actionsFor } from '../../src/machines/decision.ts';
import type { MachineDefinition, MachineEvent } from '../../src/machines/definition.ts';
import type { ActorRef, Output } from '../../src/machines/outputs.ts';

/**
 * A word from one to another, which who hears `>x>word` passes on to x as `word`; `BOOM` makes who hears it throw, `VENOM` makes what it would keep of it unfit to be stored.
 */
export type RelayedMessage = [who: Uuid, word: string];
export const THROWS = 'boom';
export const UNSTORABLE = 'venom';
/** Said of somebody who is not there yet: whoever resolves `plan.ask` is to make them, and they tell that they are `HERE`. */
export const CREATE = 'come';
export const CREATED = 'here';

interface RelayContext {
  id: Uuid;
  said: RelayedMessage[];
  heard: RelayedMessage[];
}

type SendEvent = MachineEvent & { type: 'say'; words: RelayedMessage[] };
type ReceiveEvent = MachineEvent & { type: 'state.observed'; deviceId: Uuid; observed: { word: string } };
type CreateEvent = MachineEvent & { type: 'make'; id: Uuid; calledBy?: Uuid };
type Event = SendEvent | ReceiveEvent | CreateEvent;

const action = actionsFor<RelayContext, Event>();

export const relayRef = (id: Uuid): ActorRef => ({ kind: 'device', id });

const outputFor = (id: Uuid, [to, word]: RelayedMessage): Output =>
  word === CREATE
    ? { type: 'plan.ask', planId: id, stepId: CREATE, commandId: to }
    : {
        type: 'actor.tell',
        to: relayRef(to),
        event: { type: 'state.observed', deviceId: id, observed: { word }, matches: true },
      };

/** What a `plan.ask` of theirs comes to. */
export const resolveCreate = ({ planId, commandId }: { planId: Uuid; commandId: Uuid }): AddressedEvent => ({
  to: relayRef(commandId),
  event: { type: 'make', at: 0, id: commandId, calledBy: planId } as MachineEvent,
  create: true,
});

/** An actor that keeps what it said to others and what it heard from them, each in its order. */
export const relayMachine: MachineDefinition<RelayContext> = {
  kind: 'device',
  version: 1,
  machine: setup({
    types: {} as { context: RelayContext; events: Event; emitted: Output },
    actions: {
      make: action((_, { id, calledBy }: CreateEvent) => {
        const said: RelayedMessage[] = calledBy === undefined ? [] : [[calledBy, CREATED]];
        return { changes: { id, said }, outputs: said.map((one) => outputFor(id, one)) };
      }),
      say: action(({ id, said }, { words }: SendEvent) => ({
        changes: { said: [...said, ...words] },
        outputs: words.map((word) => outputFor(id, word)),
      })),
      hear: action(({ id, said, heard }, { deviceId, observed: { word } }: ReceiveEvent) => {
        if (word === THROWS) throw new Error(THROWS);
        const [, to, rest] = /^>([^>]+)>(.*)$/.exec(word) ?? [];
        const passed: RelayedMessage[] = to === undefined || rest === undefined ? [] : [[to, rest]];
        return {
          changes: { heard: [...heard, [deviceId, word]], said: [...said, ...passed] },
          outputs: passed.map((one) => outputFor(id, one)),
        };
      }),
    },
  }).createMachine({
    id: 'gossip',
    context: { id: '', said: [], heard: [] },
    initial: 'none',
    states: {
      none: { on: { make: { target: 'there', actions: 'make' } } },
      there: { on: { say: { actions: 'say' }, 'state.observed': { actions: 'hear' } } },
    },
  }),
  tenantOf: () => 't',
  toStored: (context) => ({ ...context }) as unknown as JsonObject,
  liveFields: new Set(),
  fromStored: (stored) => stored as unknown as RelayContext,
  columns: () => ({}),
  journal: () => ({ data: null }),
  canPassivate: () => false,
  isTransient: () => false,
  toAdminView: (context) => ({ ...context }) as unknown as JsonObject,
};

/** The same, where `id` waits for words from these. */
export const relayMachineExpecting = (id: Uuid, ...others: Uuid[]): MachineDefinition<RelayContext> => ({
  ...relayMachine,
  expectsMessagesFrom: ({ context }) => (context.id === id ? others.map(relayRef) : []),
});
