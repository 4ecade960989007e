import { z } from 'zod';
import { done } from '../domain/refusals.ts';
import { eventsOf, statesOf } from '../machines/chart.ts';
import { diagram, drawing } from '../machines/drawing.ts';
import { actorKinds, currentDefinition } from '../machines/versions.ts';
import { operation } from './operation.ts';

// The charts that actors follow. They are the same for every tenant.

export const actorKind = z.enum(actorKinds);
type Kind = (typeof actorKinds)[number];

const state = z.object({
  state: z.string().meta({ description: 'The path of the state, as `administration.active.one_key`' }),
  description: z.string(),
  final: z.boolean(),
  events: z.array(z.string()).meta({ description: 'What it takes besides what the states around it take' }),
});

const summary = z.object({ kind: actorKind, version: z.int(), description: z.string() });
const machine = summary
  .extend({
    states: z.array(state),
    events: z.array(z.string()).meta({ description: 'Every event that some state takes; `after …` is a timer' }),
    diagram: z.string().meta({ description: 'Mermaid' }),
    page: z.string().meta({ description: 'Markdown: the diagrams, and for each state what every event does' }),
  })
  .meta({ id: 'Machine' });

const summaryOf = (kind: Kind): z.infer<typeof summary> => {
  const { version, machine } = currentDefinition(kind);
  return { kind, version, description: machine.root.description ?? '' };
};

const reading = { role: 'viewer', scope: 'read:actors', changes: false } as const;

export const listMachines = operation({
  ...reading,
  name: 'listMachines',
  summary: 'The machines that actors follow',
  input: z.strictObject({}),
  output: z.object({ machines: z.array(summary) }),
  run: async () => done({ body: { machines: actorKinds.map(summaryOf) } }),
});

export const getMachine = operation({
  ...reading,
  name: 'getMachine',
  summary: "A machine's states and events, drawn and in words",
  input: z.strictObject({ kind: actorKind.meta({ noun: 'machine' }) }),
  output: z.object({ machine }),
  refuses: ['NOT_FOUND'],
  async run(_services, { input: { kind } }) {
    const { machine } = currentDefinition(kind);
    const states = statesOf(machine).map(({ path, ...rest }) => ({ state: path.join('.'), ...rest }));
    const body = {
      ...summaryOf(kind),
      states,
      events: eventsOf(machine),
      diagram: diagram(machine),
      page: drawing(machine),
    };
    return done({ body: { machine: body } });
  },
});
