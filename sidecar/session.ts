import type {
  CapabilitySync,
  CognitionProposal,
  GraphStateUpdate,
  ObservationOutcome,
  PerceptionUpdate,
  RuntimeEvent,
} from '#proto/cognition/v1/runtime_pb.js';
import type { Log } from './log.ts';
import type { Planner, Tools } from './model.ts';
import { contextOf, deviceOf, memoryOf, outcomeOf, stateOf, toolsOf } from './perceive.ts';
import { proposal } from './speak.ts';
import { type Part, type Thought, think } from './thought.ts';

export interface SessionParts {
  planner: Planner;
  log: Log;
  say(message: CognitionProposal): void;
  /** Ends the stream; all that is needed is told again in the next one. */
  startOver(why: string): void;
}

/** One stream: what the service told in it, and a thought for each context. Nothing outlives it. */
export interface Session {
  heard(event: RuntimeEvent): void;
  over(): void;
}

/** Manifests of their own that tenants change again and again are not kept for ever. */
const MOST_SETS = 2_000;

/** Contexts whose end was said, of which no more was heard. */
const MOST_ENDED = 1_000;

/** `ContextPhase` and `NodeState` of the protocol. */
const THINKING = 1;
const REJECTED = 10;

export function converse({ planner, log, say, startOver }: SessionParts): Session {
  const sets = new Map<string, Tools>();
  const parts = new Map<string, Part>();
  const thoughts = new Map<string, { thought: Thought; part: string }>();
  const ended = new Set<string>();
  let said = 0;

  function sync({ sets: told }: CapabilitySync): void {
    for (const set of told) sets.set(set.capabilitySetId, toolsOf(set));
    if (sets.size > MOST_SETS) startOver('too many manifests');
  }

  function perceive(update: PerceptionUpdate): void {
    const key = [update.tenantId, update.homeId, update.deviceId].join('/');
    const told = new Map(update.activeContexts.map((context) => [context.contextId, context]));
    if (update.contextsLeftOut === 0) {
      for (const [id, { part }] of thoughts) if (part === key && !told.has(id)) drop(id);
    }
    if (told.size === 0 && update.contextsLeftOut === 0) {
      parts.delete(key);
      return;
    }
    parts.set(key, {
      devices: update.devices.map((device) => deviceOf(device, sets)),
      memories: update.memories.map(memoryOf),
    });
    for (const [id, one] of told) {
      const context = contextOf(one);
      if (context === null) continue;
      const known = thoughts.get(id);
      const thought = known?.thought ?? begin(context, key);
      thoughts.set(id, { thought, part: key });
      thought.told(context, (one.phase as number) === THINKING);
      if (!thought.isOver()) ended.delete(id);
    }
    release(key);
  }

  const begin = (context: Parameters<typeof think>[0], key: string): Thought =>
    think(context, {
      planner,
      part: () => parts.get(key) ?? { devices: [], memories: [] },
      say: (word) => say(proposal(context.id, `${++said}`, word)),
      ended: () => forget(context.id, key),
      broken: (error) => log.error({ context: context.id, err: String(error) }, 'the planner failed'),
    });

  function forget(id: string, key: string): void {
    ended.add(id);
    release(key);
    for (const oldest of ended) if (ended.size > MOST_ENDED) drop(oldest);
  }

  /** The service may never tell of that part again: it is kept for those who still think. */
  function release(key: string): void {
    for (const [id, { part }] of thoughts) if (part === key && !ended.has(id)) return;
    parts.delete(key);
  }

  function drop(id: string): void {
    thoughts.get(id)?.thought.stop();
    thoughts.delete(id);
    ended.delete(id);
  }

  function move({ contextId, nodeId, to, code, detail }: GraphStateUpdate): void {
    const thought = thoughts.get(contextId)?.thought;
    if ((to as number) === REJECTED) {
      log.debug({ context: contextId, node: nodeId, code }, 'a word was refused');
      thought?.refused(nodeId, { code, detail });
      return;
    }
    const state = stateOf(to);
    if (state !== null) thought?.moved(nodeId, state, { code, detail });
  }

  function observe(told: ObservationOutcome): void {
    // What undoes a step says nothing about the step.
    if (!told.compensation) thoughts.get(told.contextId)?.thought.outcome(told.nodeId, outcomeOf(told));
  }

  return {
    heard({ event }) {
      switch (event.case) {
        case 'capabilitySync':
          return sync(event.value);
        case 'perceptionUpdate':
          return perceive(event.value);
        case 'graphStateUpdate':
          return move(event.value);
        case 'observationOutcome':
          return observe(event.value);
        case 'interruptSignal':
          return drop(event.value.contextId);
      }
    },
    over() {
      for (const id of [...thoughts.keys()]) drop(id);
    },
  };
}
