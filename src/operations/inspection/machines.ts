import { z } from 'zod';
import { done, type Outcome } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { eventsOf, statesOf, stateTypes, transitionsOf, typeOf } from '../../machines/chart.ts';
import { chartToMarkdown, chartToMermaid } from '../../machines/chart-markdown.ts';
import { actorKinds, currentDefinition } from '../../machines/versions.ts';
import { targetTenant, tenantIdInput } from '../identity/target-tenant.ts';
import { type Caller, operation, type Services } from '../operation.ts';

// The charts that actors follow. They are the same for every tenant.

export const actorKind = z.enum(actorKinds);
type Kind = (typeof actorKinds)[number];

const state = z.object({
  state: z.string().meta({ description: 'The path of the state, as `administration.active.one_key`' }),
  description: z.string(),
  type: z.enum(stateTypes).meta({ description: 'The regions of a `parallel` state are entered together' }),
  initial: z.boolean().meta({ description: 'Entered where the state around it is, and nothing says else' }),
  final: z.boolean(),
  events: z.array(z.string()).meta({ description: 'What it takes besides what the states around it take' }),
});

const transition = z.object({
  from: z.string().meta({ description: 'The path of its state; empty for the machine itself' }),
  event: z.string().meta({ description: '`self.…` is raised by the machine within one transition' }),
  when: z.string().nullable().meta({ description: 'Its condition in words; of several the first that holds is taken' }),
  to: z.string().nullable().meta({ description: 'Null: it stays as it is' }),
  does: z.array(z.string()),
});

const summary = z.object({ kind: actorKind, version: z.int(), description: z.string() });
const machine = summary
  .extend({
    type: z.enum(stateTypes),
    states: z.array(state),
    transitions: z.array(transition).meta({ description: 'All of them, in the order in which they are looked at' }),
    events: z.array(z.string()).meta({ description: 'Every event that some state takes; `after …` is a timer' }),
    diagram: z.string().meta({ description: 'Mermaid' }),
    page: z.string().meta({ description: 'Markdown: the diagrams, and for each state what every event does' }),
  })
  .meta({ id: 'Machine' });

const summaryOf = (kind: Kind): z.infer<typeof summary> => {
  const { version, machine } = currentDefinition(kind);
  return { kind, version, description: machine.root.description ?? '' };
};

const reading = { role: 'viewer', scope: 'read:actors', changes: false, acrossTenants: true } as const;
const tenantInput = { tenant_id: tenantIdInput };

/** A platform operator may name a tenant, as everywhere among actors, and needs not: it makes no difference here. */
const checkMayRead = async (
  services: Services,
  caller: Caller,
  input: { tenant_id?: Uuid | undefined },
): Promise<Outcome<unknown>> =>
  caller.platformAdmin && input.tenant_id === undefined
    ? done(null)
    : targetTenant(services, caller, input, reading.role);

export const listMachines = operation({
  ...reading,
  name: 'listMachines',
  summary: 'The machines that actors follow',
  input: z.strictObject(tenantInput),
  output: z.object({ machines: z.array(summary) }),
  refuses: ['FORBIDDEN', 'NOT_FOUND'],
  async run(services, { input, caller }) {
    const may = await checkMayRead(services, caller, input);
    return may.ok ? done({ body: { machines: actorKinds.map(summaryOf) } }) : may;
  },
});

export const getMachine = operation({
  ...reading,
  name: 'getMachine',
  summary: "A machine's states and events, drawn and in words",
  input: z.strictObject({ kind: actorKind.meta({ noun: 'machine' }), ...tenantInput }),
  output: z.object({ machine }),
  refuses: ['FORBIDDEN', 'NOT_FOUND'],
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
