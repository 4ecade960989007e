import type { Memory } from '../../src/domain/memory.ts';
import { done, type Outcome, refuse } from '../../src/domain/refusals.ts';
import type { Json, JsonObject, Uuid } from '../../src/domain/values.ts';
import type {
  ActiveContext,
  Cognition,
  ContextChange,
  ContextNode,
  World,
  WorldDevice,
  WorldQuery,
} from '../../src/operations/cognition/contract.ts';
import { payloadHash } from '../../src/protocol/canonical.ts';

/** Cognition in memory: contexts, devices and memories that a sidecar can see, set by the test. */
export class MemoryCognition implements Cognition {
  contexts = new Map<Uuid, ActiveContext>();
  devices: (WorldDevice & { tenantId: Uuid })[] = [];
  remembered: Memory[] = [];
  /** Received calls, in order. */
  calls: { contextId: Uuid; word: string; sent: Json }[] = [];
  worldReads = 0;
  notify: (change: ContextChange) => void = () => {};
  /** Called before each answer; an error that it throws is passed to the caller. */
  beforeAnswer: () => void | Promise<void> = () => {};

  open(overrides: Pick<ActiveContext, 'id' | 'tenantId'> & Partial<ActiveContext>): ActiveContext {
    const context: ActiveContext = {
      ...{ kind: 'goal', homeId: null, deviceId: null, text: 'good night', action: null, data: null, note: null },
      ...{ phase: 'thinking', createdAt: Date.now(), nodes: [] },
      ...overrides,
    };
    this.contexts.set(context.id, context);
    this.notify({ type: 'opened', ...about(context) });
    return context;
  }

  interrupt(id: Uuid, reason: 'CANCELLED' | 'SUSPENDED' | 'PREEMPTED', detail = 'It is over.'): void {
    const context = this.contexts.get(id) as ActiveContext;
    this.contexts.delete(id);
    this.notify({ type: 'interrupted', ...about(context), reason, detail });
  }

  /** Changes the status of a node and notifies, as after a commit. */
  setNodeStatus(id: Uuid, nodeId: string, to: ContextNode['status'], error: ContextNode['error'] = null): void {
    const context = this.contexts.get(id) as ActiveContext;
    const from = context.nodes.find((node) => node.id === nodeId)?.status ?? null;
    const nodes = context.nodes.map((node) => (node.id === nodeId ? { ...node, status: to, error } : node));
    this.contexts.set(id, { ...context, nodes });
    this.notify({ type: 'node', ...about(context), nodeId, from, to, commandId: null, error });
  }

  async *active(): AsyncIterable<ActiveContext> {
    await this.beforeAnswer();
    yield* [...this.contexts.values()];
  }

  async context(id: Uuid): Promise<ActiveContext | null> {
    await this.beforeAnswer();
    return this.contexts.get(id) ?? null;
  }

  async world({ tenantId, homeId, deviceId = null }: WorldQuery): Promise<World> {
    await this.beforeAnswer();
    this.worldReads += 1;
    const devices = this.devices.filter(
      (one) =>
        one.tenantId === tenantId &&
        (homeId === null || one.homeId === homeId) &&
        (deviceId === null || one.id === deviceId),
    );
    return { tenantId, homeId, devices, hash: payloadHash(devices as unknown as Json) };
  }

  worldOf({ tenantId, homeId, deviceId, kind }: ActiveContext): Promise<World> {
    return this.world(kind === 'device' ? { tenantId, homeId: null, deviceId } : { tenantId, homeId });
  }

  async stateOf(tenantId: Uuid, deviceId: Uuid): Promise<JsonObject | null> {
    return this.devices.find((one) => one.id === deviceId && one.tenantId === tenantId)?.state ?? null;
  }

  async memories(tenantId: Uuid): Promise<readonly Memory[]> {
    return this.remembered.filter((one) => one.tenantId === tenantId);
  }

  async propose(contextId: Uuid, proposed: Json): Promise<Outcome<{ repeat: boolean }>> {
    const context = await this.#recordCall(contextId, 'propose', proposed);
    if (!context.ok) return context;
    const {
      id,
      device_id,
      action,
      params = {},
    } = proposed as { id: string; device_id: string; action: string } & JsonObject;
    if (context.value.nodes.some((known) => known.id === id)) return done({ repeat: true });
    if (!this.devices.some((one) => one.id === device_id && one.tenantId === context.value.tenantId)) {
      return refuse('NOT_FOUND', 'Device not found.');
    }
    const contextNode: ContextNode = {
      ...{ id, deviceId: device_id, action, params: params as JsonObject, dependsOn: [], compensation: null },
      ...{ timeoutS: null, status: 'pending', commandId: null, error: null },
    };
    this.contexts.set(contextId, { ...context.value, nodes: [...context.value.nodes, contextNode] });
    if (context.value.kind !== 'observation') {
      const change = { nodeId: id, from: null, to: 'pending', commandId: null, error: null } as const;
      this.notify({ type: 'node', ...about(context.value), ...change });
    }
    return done({ repeat: false });
  }

  async suspend(contextId: Uuid, args: { reason: string; forS?: number | null }): Promise<Outcome<null>> {
    const context = await this.#recordCall(contextId, 'suspend', args as unknown as Json);
    if (!context.ok) return context;
    this.contexts.set(contextId, { ...context.value, phase: 'suspended' });
    return done(null);
  }

  complete(contextId: Uuid, args: { summary: string; finalState?: JsonObject | null }): Promise<Outcome<null>> {
    return this.#end(contextId, 'complete', args as unknown as Json);
  }

  fail(contextId: Uuid, args: { code: string; detail: string }): Promise<Outcome<null>> {
    return this.#end(contextId, 'fail', args);
  }

  async #end(contextId: Uuid, word: string, sent: Json): Promise<Outcome<null>> {
    const context = await this.#recordCall(contextId, word, sent);
    if (!context.ok) return context;
    this.contexts.delete(contextId);
    this.#ended.add(contextId);
    return done(null);
  }

  readonly #ended = new Set<Uuid>();

  async #recordCall(contextId: Uuid, word: string, sent: Json): Promise<Outcome<ActiveContext>> {
    this.calls.push({ contextId, word, sent });
    await this.beforeAnswer();
    const context = this.contexts.get(contextId);
    if (context !== undefined) return done(context);
    return this.#ended.has(contextId) ? refuse('CONFLICT', 'It is over.') : refuse('NOT_FOUND', 'There is none.');
  }
}

const about = ({ id, tenantId, homeId }: ActiveContext) => ({ contextId: id, tenantId, homeId, at: Date.now() });
