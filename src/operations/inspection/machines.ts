import { z } from 'zod';
import { done, type Outcome } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { eventsOf, statesOf, stateTypes, transitionsOf, typeOf } from '../../machines/chart.ts';
import { chartToMarkdown, chartToMermaid } from '../../machines/chart-markdown.ts';
import { actorKinds } from '../../machines/outputs.ts';
import { currentDefinition } from '../../machines/versions.ts';
import { targetTenant, tenantIdInput } from '../identity/target-tenant.ts';
import { type Caller, operation, type Services } from '../operation.ts';

// The state machines of actors. They are the same for every tenant.

export const actorKind = z.enum(actorKinds).meta({ id: 'ActorKind' });
type Kind = (typeof actorKinds)[number];

const state = z.object({
  state: z.string().meta({ description: 'Path of the state, such as `administration.active.one_key`' }),
  description: z.string(),
  type: z.enum(stateTypes).meta({ description: 'The regions of a `parallel` state are entered together' }),
  initial: z.boolean().meta({ description: 'Whether it is the default state of its parent' }),
  final: z.boolean(),
  events: z.array(z.string()).meta({ description: 'Events that it handles, in addition to those of its parents' }),
});

const transition = z.object({
  from: z.string().meta({ description: 'Path of the source state; empty for the machine itself' }),
  event: z.string().meta({ description: '`self.…` is raised by the machine within one transition' }),
  when: z
    .string()
    .nullable()
    .meta({ description: 'Condition, in prose; the first transition whose condition holds is taken' }),
  to: z.string().nullable().meta({ description: 'Path of the target state; null if the state does not change' }),
  does: z.array(z.string()),
});

const summary = z.object({ kind: actorKind, version: z.int(), description: z.string() });
const machine = summary
  .extend({
    type: z.enum(stateTypes),
    states: z.array(state),
    transitions: z.array(transition).meta({ description: 'All transitions, in the order of evaluation' }),
    events: z.array(z.string()).meta({ description: 'All events that some state handles; `after …` is a timer' }),
    diagram: z.string().meta({ description: 'Mermaid' }),
    page: z.string().meta({ description: 'Markdown: the diagrams, and for each state the effect of every event' }),
  })
  .meta({ id: 'Machine' });

const summaryOf = (kind: Kind): z.infer<typeof summary> => {
  const { version, machine } = currentDefinition(kind);
  return { kind, version, description: machine.root.description ?? '' };
};

const reading = { role: 'viewer', scope: 'read:actors', changes: false, acrossTenants: true } as const;
const tenantInput = { tenant_id: tenantIdInput };

/**
 * A platform operator may send a tenant id, as in all operations on actors, but needs none here: it makes no
 * difference.
 */
const checkMayRead = async (
  services: Pick<Services, 'actors'>,
  caller: Caller,
  input: { tenant_id?: Uuid | undefined },
): Promise<Outcome<unknown>> =>
  caller.platformAdmin && input.tenant_id === undefined
    ? done(null)
    : targetTenant(services, caller, input, reading.role);

export const listMachines = operation({
  ...reading,
  name: 'listMachines',
  summary: 'List the state machines of actors',
  input: z.strictObject(tenantInput),
  output: z.object({ machines: z.array(summary) }),
  refuses: ['FORBIDDEN', 'NOT_FOUND'],
  needs: ['actors'],
  async run(services, { input, caller }) {
    const may = await checkMayRead(services, caller, input);
    return may.ok ? done({ body: { machines: actorKinds.map(summaryOf) } }) : may;
  },
});

export const getMachine = operation({
  ...reading,
  name: 'getMachine',
  summary: "Show a machine's states and transitions, with a diagram and a description",
  input: z.strictObject({ kind: actorKind.meta({ noun: 'machine' }), ...tenantInput }),
  output: z.object({ machine }),
  refuses: ['FORBIDDEN', 'NOT_FOUND'],
  needs: ['actors'],
  async run(services, { input, caller }) {
    const may = await checkMayRead(services, caller, input);
    if (!may.ok) return may;
    const { kind } = input;
    const { machine } = currentDefinition(kind);
    const states = statesOf(machine).map(({ path, ...rest }) => ({ state: path.join('.'), ...rest }));
    const body = {
      ...summaryOf(kind),
      type: typeOf(machine.root),
      states,
      transitions: transitionsOf(machine).map(({ from, to, ...rest }) => ({
        ...{ from: from.join('.'), to: to?.join('.') ?? null },
        ...rest,
      })),
      events: eventsOf(machine),
      diagram: chartToMermaid(machine),
      page: chartToMarkdown(machine),
    };
    return done({ body: { machine: body } });
  },
});
