import type {
  CapabilitySync,
  CognitionProposal,
  GraphStateUpdate,
  ObservationOutcome,
  PerceptionUpdate,
  RuntimeEvent,
} from '#proto/cognition/v1/runtime_pb.js';
import { commandOutcomeOf, contextOf, deviceOf, memoryOf, nodeStateOf, toolsOf } from './event-decoder.ts';
import type { Log } from './log.ts';
import type { Context, Planner, Tools } from './planner-types.ts';
import { PlanningTask, type WorldState } from './planning-task.ts';
import { encodeProposal } from './proposal-encoder.ts';

export interface SessionParts {
  planner: Planner;
  log: Log;
  send(message: CognitionProposal): void;
  /** Ends the stream. The next one starts with a full synchronization. */
  resetStream(why: string): void;
}

/** Beyond it the stream is reset: tenants may change their manifests often, and old sets are never removed. */
const MAX_CAPABILITY_SETS = 2_000;

/** Contexts with a proposed end that the service has not confirmed. */
const MAX_ENDED_CONTEXTS = 1_000;

/** `ContextPhase` and `NodeState` of the protocol. */
const THINKING = 1;
const REJECTED = 10;

/** The state of one stream: capability sets, worlds, and one planning task per context. */
export class StreamSession {
  readonly #parts: SessionParts;
  readonly #sets = new Map<string, Tools>();
  readonly #worlds = new Map<string, WorldState>();
  readonly #tasks = new Map<string, { task: PlanningTask; scope: string }>();
  readonly #ended = new Set<string>();
  #proposalCount = 0;

  constructor(parts: SessionParts) {
    this.#parts = parts;
  }

  handleEvent({ event }: RuntimeEvent): void {
    switch (event.case) {
      case 'capabilitySync':
        this.#syncCapabilities(event.value);
        break;
      case 'perceptionUpdate':
        this.#updateWorld(event.value);
        break;
      case 'graphStateUpdate':
        this.#updateNode(event.value);
        break;
      case 'observationOutcome':
        this.#recordOutcome(event.value);
        break;
      case 'interruptSignal':
        this.#drop(event.value.contextId);
        break;
      case undefined:
        break;
      default:
        event satisfies never;
    }
  }

  close(): void {
    for (const id of [...this.#tasks.keys()]) this.#drop(id);
  }

  #syncCapabilities({ sets: received }: CapabilitySync): void {
    for (const set of received) this.#sets.set(set.capabilitySetId, toolsOf(set));
    if (this.#sets.size > MAX_CAPABILITY_SETS) this.#parts.resetStream('too many manifests');
  }

  #updateWorld(update: PerceptionUpdate): void {
    const key = [update.tenantId, update.homeId, update.deviceId].join('/');
    const received = new Map(update.activeContexts.map((context) => [context.contextId, context]));
    if (update.contextsLeftOut === 0) {
      for (const [id, { scope }] of this.#tasks) if (scope === key && !received.has(id)) this.#drop(id);
    }
    if (received.size === 0 && update.contextsLeftOut === 0) {
      this.#worlds.delete(key);
      return;
    }
    this.#worlds.set(key, {
      devices: update.devices.map((device) => deviceOf(device, this.#sets)),
      memories: update.memories.map(memoryOf),
    });
    for (const [id, message] of received) {
      const context = contextOf(message);
      if (context === null) continue;
      const task = this.#tasks.get(id)?.task ?? this.#createTask(context, key);
      this.#tasks.set(id, { task, scope: key });
      task.updateContext(context, (message.phase as number) === THINKING);
      if (!task.hasEnded()) this.#ended.delete(id);
    }
    this.#release(key);
  }

  #createTask(context: Context, key: string): PlanningTask {
    const { planner, log, send } = this.#parts;
    return new PlanningTask(context, {
      planner,
      world: () => this.#worlds.get(key) ?? { devices: [], memories: [] },
      send: (body) => send(encodeProposal(context.id, `${++this.#proposalCount}`, body)),
      onEnded: () => this.#markEnded(context.id, key),
      onPlannerError: (error) => log.error({ context: context.id, err: String(error) }, 'planner failed'),
    });
  }

  #markEnded(id: string, key: string): void {
    this.#ended.add(id);
    this.#release(key);
    for (const oldest of this.#ended) if (this.#ended.size > MAX_ENDED_CONTEXTS) this.#drop(oldest);
  }

  /** Frees the world of a scope when no active task needs it: the service may never update this scope again. */
  #release(key: string): void {
    for (const [id, { scope }] of this.#tasks) if (scope === key && !this.#ended.has(id)) return;
    this.#worlds.delete(key);
  }

  #drop(id: string): void {
    this.#tasks.get(id)?.task.stop();
    this.#tasks.delete(id);
    this.#ended.delete(id);
  }

  #updateNode({ contextId, nodeId, to, code, detail }: GraphStateUpdate): void {
    const task = this.#tasks.get(contextId)?.task;
    if ((to as number) === REJECTED) {
      this.#parts.log.debug({ context: contextId, node: nodeId, code }, 'proposal rejected');
      task?.handleRejection(nodeId, { code, detail });
      return;
    }
    const state = nodeStateOf(to);
    if (state !== null) task?.updateNode(nodeId, state, { code, detail });
  }

  #recordOutcome(outcome: ObservationOutcome): void {
    // The outcome of a compensation is not the outcome of its step.
    if (outcome.compensation) return;
    this.#tasks.get(outcome.contextId)?.task.recordOutcome(outcome.nodeId, commandOutcomeOf(outcome));
  }
}
