import { setup } from 'xstate';
import type { AddressedEvent } from '../../src/actors/contract.ts';
import type { JsonObject, Uuid } from '../../src/domain/values.ts';
import { actionsFor } from '../../src/machines/decision.ts';
import type { MachineDefinition, MachineEvent } from '../../src/machines/definition.ts';
import type { ActorRef, Output } from '../../src/machines/outputs.ts';

/**
 * A word from one to another, which who hears `>x>word` passes on to x as `word`; `BOOM` makes who hears it throw, `VENOM` makes what it would keep of it unfit to be stored.
 */
export type Word = [who: Uuid, word: string];
export const BOOM = 'boom';
export const VENOM = 'venom';
/** Said of somebody who is not there yet: whoever resolves `plan.ask` is to make them, and they tell that they are `HERE`. */
export const COME = 'come';
export const HERE = 'here';

interface GossipContext {
  id: Uuid;
  said: Word[];
  heard: Word[];
}

type Say = MachineEvent & { type: 'say'; words: Word[] };
type Heard = MachineEvent & { type: 'state.observed'; deviceId: Uuid; observed: { word: string } };
type Make = MachineEvent & { type: 'make'; id: Uuid; calledBy?: Uuid };
type Event = Say | Heard | Make;

const act = actionsFor<GossipContext, Event>();

export const gossipRef = (id: Uuid): ActorRef => ({ kind: 'device', id });

const telling = (id: Uuid, [to, word]: Word): Output =>
  word === COME
    ? { type: 'plan.ask', planId: id, stepId: COME, commandId: to }
    : {
        type: 'actor.tell',
        to: gossipRef(to),
        event: { type: 'state.observed', deviceId: id, observed: { word }, matches: true },
      };

/** What a `plan.ask` of theirs comes to. */
export const coming = ({ planId, commandId }: { planId: Uuid; commandId: Uuid }): AddressedEvent => ({
  to: gossipRef(commandId),
  event: { type: 'make', at: 0, id: commandId, calledBy: planId } as MachineEvent,
  create: true,
});

/** An actor that keeps what it said to others and what it heard from them, each in its order. */
export const gossip: MachineDefinition<GossipContext> = {
  kind: 'device',
  version: 1,
  machine: setup({
    types: {} as { context: GossipContext; events: Event; emitted: Output },
    actions: {
      make: act((_, { id, calledBy }: Make) => {
        const said: Word[] = calledBy === undefined ? [] : [[calledBy, HERE]];
        return { changes: { id, said }, outputs: said.map((one) => telling(id, one)) };
      }),
      say: act(({ id, said }, { words }: Say) => ({
        changes: { said: [...said, ...words] },
        outputs: words.map((word) => telling(id, word)),
      })),
      hear: act(({ id, said, heard }, { deviceId, observed: { word } }: Heard) => {
        if (word === BOOM) throw new Error(BOOM);
        const [, to, rest] = /^>([^>]+)>(.*)$/.exec(word) ?? [];
        const passed: Word[] = to === undefined || rest === undefined ? [] : [[to, rest]];
        return {
          changes: { heard: [...heard, [deviceId, word]], said: [...said, ...passed] },
          outputs: passed.map((one) => telling(id, one)),
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
  fromStored: (stored) => stored as unknown as GossipContext,
  columns: () => ({}),
  journal: () => ({ data: null }),
  canPassivate: () => false,
  isTransient: () => false,
  toAdminView: (context) => ({ ...context }) as unknown as JsonObject,
};

/** The same, where `id` waits for words from these. */
export const awaiting = (id: Uuid, ...others: Uuid[]): MachineDefinition<GossipContext> => ({
  ...gossip,
  expectsMessagesFrom: ({ context }) => (context.id === id ? others.map(gossipRef) : []),
});
