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
  /** Ends the stream. The next one starts with a full synchronization. */
  resetStream(why: string): void;
}

/** The state of one stream: capability sets, worlds, and one planning task per context. */
export interface Session {
  handleEvent(event: RuntimeEvent): void;
  close(): void;
}

/** Beyond it the stream is reset: tenants may change their manifests often, and old sets are never removed. */
const MAX_CAPABILITY_SETS = 2_000;

/** Contexts with a proposed end that the service has not confirmed. */
const MAX_ENDED_CONTEXTS = 1_000;

/** `ContextPhase` and `NodeState` of the protocol. */
const THINKING = 1;
const REJECTED = 10;

export function startSession({ planner, log, send, resetStream }: SessionParts): Session {
  const sets = new Map<string, Tools>();
  const worlds = new Map<string, WorldState>();
  const tasks = new Map<string, { task: PlanningTask; scope: string }>();
  const ended = new Set<string>();
  let proposalCount = 0;

  function syncCapabilities({ sets: received }: CapabilitySync): void {
    for (const set of received) sets.set(set.capabilitySetId, toolsOf(set));
    if (sets.size > MAX_CAPABILITY_SETS) resetStream('too many manifests');
  }

  function updateWorld(update: PerceptionUpdate): void {
    const key = [update.tenantId, update.homeId, update.deviceId].join('/');
    const received = new Map(update.activeContexts.map((context) => [context.contextId, context]));
    if (update.contextsLeftOut === 0) {
      for (const [id, { scope }] of tasks) if (scope === key && !received.has(id)) drop(id);
    }
    if (received.size === 0 && update.contextsLeftOut === 0) {
      worlds.delete(key);
      return;
    }
    worlds.set(key, {
      devices: update.devices.map((device) => deviceOf(device, sets)),
      memories: update.memories.map(memoryOf),
    });
    for (const [id, message] of received) {
      const context = contextOf(message);
      if (context === null) continue;
      const task = tasks.get(id)?.task ?? startTask(context, key);
      tasks.set(id, { task, scope: key });
      task.updateContext(context, (message.phase as number) === THINKING);
      if (!task.hasEnded()) ended.delete(id);
    }
    release(key);
  }

  const startTask = (context: Parameters<typeof startPlanning>[0], key: string): PlanningTask =>
    startPlanning(context, {
      planner,
      world: () => worlds.get(key) ?? { devices: [], memories: [] },
      send: (body) => send(encodeProposal(context.id, `${++proposalCount}`, body)),
      onEnded: () => markEnded(context.id, key),
      onPlannerError: (error) => log.error({ context: context.id, err: String(error) }, 'planner failed'),
    });

  function markEnded(id: string, key: string): void {
    ended.add(id);
    release(key);
    for (const oldest of ended) if (ended.size > MAX_ENDED_CONTEXTS) drop(oldest);
  }

  /** Frees the world of a scope when no active task needs it: the service may never update this scope again. */
  function release(key: string): void {
    for (const [id, { scope }] of tasks) if (scope === key && !ended.has(id)) return;
    worlds.delete(key);
  }

  function drop(id: string): void {
    tasks.get(id)?.task.stop();
    tasks.delete(id);
    ended.delete(id);
  }

  function updateNode({ contextId, nodeId, to, code, detail }: GraphStateUpdate): void {
    const task = tasks.get(contextId)?.task;
    if ((to as number) === REJECTED) {
      log.debug({ context: contextId, node: nodeId, code }, 'proposal rejected');
      task?.handleRejection(nodeId, { code, detail });
      return;
    }
    const state = nodeStateOf(to);
    if (state !== null) task?.updateNode(nodeId, state, { code, detail });
  }

  function recordOutcome(outcome: ObservationOutcome): void {
    // The outcome of a compensation is not the outcome of its step.
    if (!outcome.compensation) tasks.get(outcome.contextId)?.task.recordOutcome(outcome.nodeId, outcomeOf(outcome));
  }

  return {
    handleEvent({ event }) {
      switch (event.case) {
        case 'capabilitySync':
          return syncCapabilities(event.value);
        case 'perceptionUpdate':
          return updateWorld(event.value);
        case 'graphStateUpdate':
          return updateNode(event.value);
        case 'observationOutcome':
          return recordOutcome(event.value);
        case 'interruptSignal':
          return drop(event.value.contextId);
      }
    },
    close() {
      for (const id of [...tasks.keys()]) drop(id);
    },
  };
}
