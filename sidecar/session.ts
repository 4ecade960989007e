import type {
  CapabilitySync,
  CognitionProposal,
  GraphStateUpdate,
  ObservationOutcome,
  PerceptionUpdate,
  RuntimeEvent,
} from '#proto/cognition/v1/runtime_pb.js';
import { contextOf, deviceOf, memoryOf, nodeStateOf, outcomeOf, toolsOf } from './event-decoder.ts';
import type { Log } from './log.ts';
import type { Planner, Tools } from './planner-types.ts';
import { type PlanningTask, startPlanning, type WorldState } from './planning-task.ts';
import { encodeProposal } from './proposal-encoder.ts';

export interface SessionParts {
  planner: Planner;
  log: Log;
  send(message: CognitionProposal): void;
  /** Ends the stream; all that is needed is told again in the next one. */
  resetStream(why: string): void;
}

/** One stream: what the service told in it, and a thought for each context. Nothing outlives it. */
export interface Session {
  handleEvent(event: RuntimeEvent): void;
  close(): void;
}

/** Manifests of their own that tenants change again and again are not kept for ever. */
const MAX_CAPABILITY_SETS = 2_000;

/** Contexts whose end was said, of which no more was heard. */
const MAX_ENDED_CONTEXTS = 1_000;

/** `ContextPhase` and `NodeState` of the protocol. */
const THINKING = 1;
const REJECTED = 10;

export function startSession({ planner, log, send, resetStream }: SessionParts): Session {
  const sets = new Map<string, Tools>();
  const parts = new Map<string, WorldState>();
  const thoughts = new Map<string, { thought: PlanningTask; part: string }>();
  const ended = new Set<string>();
  let said = 0;

  function sync({ sets: told }: CapabilitySync): void {
    for (const set of told) sets.set(set.capabilitySetId, toolsOf(set));
    if (sets.size > MAX_CAPABILITY_SETS) resetStream('too many manifests');
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
      thought.updateContext(context, (one.phase as number) === THINKING);
      if (!thought.hasEnded()) ended.delete(id);
    }
    release(key);
  }

  const begin = (context: Parameters<typeof startPlanning>[0], key: string): PlanningTask =>
    startPlanning(context, {
      planner,
      world: () => parts.get(key) ?? { devices: [], memories: [] },
      send: (word) => send(encodeProposal(context.id, `${++said}`, word)),
      onEnded: () => forget(context.id, key),
      onPlannerError: (error) => log.error({ context: context.id, err: String(error) }, 'the planner failed'),
    });

  function forget(id: string, key: string): void {
    ended.add(id);
    release(key);
    for (const oldest of ended) if (ended.size > MAX_ENDED_CONTEXTS) drop(oldest);
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
      thought?.handleRejection(nodeId, { code, detail });
      return;
    }
    const state = nodeStateOf(to);
    if (state !== null) thought?.updateNode(nodeId, state, { code, detail });
  }

  function observe(told: ObservationOutcome): void {
    // What undoes a step says nothing about the step.
    if (!told.compensation) thoughts.get(told.contextId)?.thought.recordOutcome(told.nodeId, outcomeOf(told));
  }

  return {
    handleEvent({ event }) {
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
    close() {
      for (const id of [...thoughts.keys()]) drop(id);
    },
  };
}
