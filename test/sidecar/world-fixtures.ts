import type {
  Context,
  JsonObject,
  Memory,
  Node,
  PlannerDecision,
  PlannerDevice,
  PlannerInput,
  Tool,
} from '../../sidecar/planner-types.ts';
import { actionsByCategory, maintenanceActions } from '../../src/domain/capability-actions.ts';

// A home as a planner sees it, with the actions of the service's categories.

type Category = keyof typeof actionsByCategory;

export const toolsOf = (category: Category): ReadonlyMap<string, Tool> =>
  new Map(
    [...actionsByCategory[category], ...maintenanceActions]
      .filter(({ safetyClass }) => safetyClass !== 'RESTRICTED')
      .map(({ action, description, safetyClass, paramSchema, expectedState }) => [
        action,
        {
          action,
          critical: safetyClass === 'CRITICAL',
          functionName: action,
          description: description ?? '',
          params: paramSchema as JsonObject,
          expectedState: (expectedState ?? null) as JsonObject | null,
        },
      ]),
  );

export const device = (category: Category, name: string, more: Partial<PlannerDevice> = {}): PlannerDevice => ({
  id: `id-of-${name}`,
  name,
  room: null,
  type: `smart_${category}`,
  category,
  online: true,
  state: null,
  stateOutdated: false,
  tools: toolsOf(category),
  ...more,
});

/** A flat with one device of each kind. */
export const flat = (): PlannerDevice[] => [
  device('light', 'Ceiling light', {
    room: 'Living room',
    state: { on: true, brightness: 80, color_temperature: 4_000 },
  }),
  device('light', 'Reading lamp', { room: 'Living room', state: { on: false, brightness: 50 } }),
  device('light', 'Bed light', { room: 'Bedroom', state: { on: true, brightness: 30 } }),
  device('climate', 'Thermostat', { room: 'Living room', state: { on: true, mode: 'heat', target_celsius: 20 } }),
  device('climate', 'Radiator', { room: 'Bedroom', state: { on: true, mode: 'auto', target_celsius: 19 } }),
  device('lock', 'Front door', { room: 'Hall', state: { locked: false } }),
  device('cover', 'Living room blind', { room: 'Living room', state: { position: 100 } }),
  device('switch', 'Fridge plug', { room: 'Kitchen', state: { on: true } }),
  device('valve', 'Main valve', { room: 'Kitchen', state: { open: true } }),
  device('sensor', 'Bath sensor', { room: 'Bathroom', state: { temperature: 21 } }),
];

export const memory = (kind: string, subject: string, content: string, tags: string[] = []): Memory => ({
  ...{ id: `${kind} ${subject}`, kind, subject, content, tags },
});

export const context = (more: Partial<Context> = {}): Context => ({
  ...{ id: 'context', kind: 'goal', text: '', deviceId: null, requestedAction: null, data: {}, note: '', nodes: [] },
  ...more,
});

export const view = (more: Partial<PlannerInput> = {}): PlannerInput => ({
  ...{ context: context(), devices: flat(), memories: [], refusals: [] },
  ...more,
});

export const goal = (text: string, more: Partial<PlannerInput> = {}): PlannerInput =>
  view({ context: context({ text }), ...more });

export const observed = (data: JsonObject, by: string, more: Partial<PlannerInput> = {}): PlannerInput =>
  view({ context: context({ kind: 'observation', deviceId: `id-of-${by}`, data }), ...more });

/** Steps in short form: `Front door lock`, with parameters, dependencies and compensation. */
export function shortForm(decision: PlannerDecision): string[] {
  if ('failed' in decision) return [`${decision.code}: ${decision.failed}`];
  if ('done' in decision) return [`done: ${decision.done}`];
  return decision.steps.map(({ deviceId, action, params, dependsOn, compensation }) => {
    const words = [
      deviceId.replace('id-of-', ''),
      action,
      ...Object.values(params).map((value) => JSON.stringify(value)),
    ];
    if (dependsOn.length > 0) words.push(`after ${dependsOn.join(' ')}`);
    if (compensation !== null)
      words.push(
        'undone by',
        compensation.action,
        ...Object.values(compensation.params).map((value) => JSON.stringify(value)),
      );
    return words.join(' ');
  });
}

/** The nodes of a decision, all in the given state. */
export const nodesOf = (decision: PlannerDecision, state: Node['state'], more: Partial<Node> = {}): Node[] =>
  'steps' in decision
    ? decision.steps.map((step) => ({ ...step, state, code: '', detail: '', outcome: null, ...more }))
    : [];
