import type { Command } from 'commander';
import { isFinalPlanStatus, type PlanStatus } from '../../domain/plan.ts';
import type { JsonObject } from '../../domain/values.ts';
import { parseAssignments, parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { FailedError, RefusedError, UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { waitForOutcome } from '../outcome-watch.ts';
import { fetchPages } from '../pagination.ts';
import { colorStatus, printTable } from '../print.ts';
import { fetchPlan, followPlan, type PlanRecord, showPlan } from './plans.ts';

interface Proposal {
  id: string;
  status: string;
  reason: string | null;
  steps: { id: string; device_id: string; action: string; params: JsonObject; depends_on: string[] }[];
  plan_id?: string;
  device_id: string;
  data: JsonObject;
  created_at: string;
  expires_at: string;
}
interface GoalOptions {
  home?: string;
  device?: string;
  context?: string;
  watch?: boolean;
}

/** A sidecar with rules answers at once; a language model may take longer. */
const EARLY_OUTCOME_MS = 2_000;

const proposalPath = (id: string, verb = ''): string => `/v1/cognition/proposals/${encodeURIComponent(id)}${verb}`;

async function goalRequest(
  { resolve, resolveOption }: CliContext,
  text: string,
  { home, device, context }: GoalOptions,
): Promise<{ path: string; body: object }> {
  if (device === undefined) {
    if (context !== undefined) throw new UsageError('--context requires --device');
    const homeId = await resolveOption('home', home);
    const payload = { text, ...(homeId !== undefined && { home_id: homeId }) };
    return { path: '/v1/intent', body: { type: 'goal', payload } };
  }
  if (home !== undefined) throw new UsageError('give --home or --device, not both');
  const body = { goal: text, ...(context !== undefined && { context }) };
  return { path: `/v1/devices/${encodeURIComponent(await resolve('device', device))}/command`, body };
}

/**
 * Prints the id of the plan for a goal, and how to follow it. Throws `FailedError` if the sidecar reports within
 * `EARLY_OUTCOME_MS` that it cannot plan, or if the plan has failed by then.
 */
async function showStartedGoal({ api, io, show }: CliContext, start: () => Promise<string>): Promise<void> {
  const waited = Promise.withResolvers<void>();
  let timer: NodeJS.Timeout | undefined;
  let planId = '';
  const plan = await waitForOutcome<PlanRecord>(api, {
    updates: { events: ['plan'] },
    async start() {
      planId = await start();
      show({ plan_id: planId }, () => io.out(planId));
      timer = setTimeout(waited.resolve, EARLY_OUTCOME_MS);
      return { id: planId };
    },
    read: async (id) => (await api.get<{ plan: PlanRecord }>(`/v1/plans/${id}`)).plan,
    hasEnded: ({ status, steps }) => steps.length > 0 || isFinalPlanStatus(status),
    isAbout: ({ plan_id }, id) => plan_id === id,
    isFinalUpdate: ({ step_id, status }) => step_id !== undefined || isFinalPlanStatus(status as PlanStatus),
    cancelled: waited.promise,
  })
    .catch((thrown: unknown) => {
      // The credential may set goals, but not read plans, or is above its rate limit.
      if (planId !== '' && thrown instanceof RefusedError) return null;
      throw thrown;
    })
    .finally(() => clearTimeout(timer));
  if (plan !== null && isFinalPlanStatus(plan.status) && plan.status !== 'succeeded') {
    const { code, detail } = plan.cognition?.error ?? {};
    const reason = code === undefined ? '' : `: ${code}: ${detail}`;
    throw new FailedError(`the plan is ${plan.status}${reason}; twinkeep plans show ${planId}`);
  }
  io.err(io.errColors.dim(`follow it with: twinkeep plans show ${planId} --watch`));
}

/** Goals and observations for the sidecar, and its proposals. */
export function addCognition(program: Command, io: Io): void {
  program
    .command('goal <text>')
    .summary('have the sidecar plan for a goal')
    .description(
      'Has the sidecar plan for a goal in natural language: for all homes, for one home, or for one device (admins only).\n' +
        'Prints the id of the plan. Exits with 1 if the sidecar reports within two seconds that it cannot plan.',
    )
    .option('--home <home>', 'use only devices of this home')
    .option('--device <device>', 'use only this device')
    .option('--context <text>', 'additional information for the sidecar (requires --device)')
    .option('--watch', 'follow the plan to its end; exit with 1 unless it succeeds')
    .addHelpText('after', '\nExample:\n  twinkeep goal "Make the living room warm" --watch')
    .action(async (text: string, { watch, ...target }: GoalOptions, command: Command) => {
      const client = createCliContext(io, command);
      const { api } = client;
      const request = await goalRequest(client, text, target);
      const start = async () => (await api.post<{ plan_id: string }>(request.path, request.body)).plan_id;
      if (watch) await followPlan(client, async () => fetchPlan(api, await start()));
      else await showStartedGoal(client, start);
    });
  program
    .command('observe <device> <measurements...>')
    .summary('send measurements to the sidecar')
    .description('Sends measurements (name=value) to the sidecar and prints the id of the proposal that may follow.')
    .option('--context <text>', 'additional information for the sidecar')
    .addHelpText('after', '\nExample:\n  twinkeep observe Bathroom humidity=81 --context "After a shower"')
    .action(async (device: string, measurements: string[], { context }: { context?: string }, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const data = parseAssignments(measurements);
      const body = { device_id: await resolve('device', device), data, ...(context !== undefined && { context }) };
      const received = await api.post<{ proposal_id: string }>('/v1/cognition/observation', body);
      show(received, ({ proposal_id }) => io.out(proposal_id));
    });
  addProposals(program, io);
}

function addProposals(program: Command, io: Io): void {
  const proposals = program
    .command('proposals')
    .summary('review proposals of the sidecar')
    .description(
      'Proposals of the sidecar after observations. A proposal is carried out only after a user accepts it.',
    );
  proposals
    .command('list', { isDefault: true })
    .description('Lists proposals, newest first.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async ({ limit, cursor }: { limit: number; cursor?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      type Body = { proposals: Proposal[]; next_cursor: string | null };
      const page = await fetchPages<Body>(api, '/v1/cognition/proposals', {
        name: 'proposals',
        limit,
        query: { cursor },
      });
      show(page, ({ proposals: found, next_cursor }) => {
        const rows = found.map(({ id, status, steps, reason, created_at, expires_at }) => [
          ...[id, status, `${steps.length}`, reason ?? '', created_at, status === 'pending' ? expires_at : ''],
        ]);
        printTable(io, ['ID', 'STATUS', 'STEPS', 'REASON', 'CREATED', 'EXPIRES'], rows);
        if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
      });
    });
  proposals
    .command('show <proposal-id>')
    .description('Shows a proposal with its observation and steps.')
    .action(async (id: string, _: object, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<{ proposal: Proposal }>(proposalPath(id)), ({ proposal }) => showProposal(io, proposal));
    });
  proposals
    .command('accept <proposal-id>')
    .description('Accepts a proposal and runs it as your plan.')
    .option('--watch', 'follow the plan to its end; exit with 1 unless it succeeds')
    .action(async (id: string, { watch }: { watch?: boolean }, command: Command) => {
      const client = createCliContext(io, command);
      const accepted = async () => (await client.api.post<{ plan: PlanRecord }>(proposalPath(id, '/accept'))).plan;
      if (watch) await followPlan(client, accepted);
      else client.show({ plan: await accepted() }, ({ plan }) => showPlan(io, plan));
    });
  proposals
    .command('refuse <proposal-id>')
    .description('Refuses a proposal.')
    .option('--reason <text>', 'reason, stored with the proposal')
    .action(async (id: string, { reason }: { reason?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const body = reason === undefined ? {} : { reason };
      show(await api.post<{ proposal: Proposal }>(proposalPath(id, '/refuse'), body), ({ proposal }) =>
        showProposal(io, proposal),
      );
    });
}

function showProposal(io: Io, { id, status, reason, steps, plan_id, device_id, data }: Proposal): void {
  const { dim } = io.outColors;
  io.out(`${colorStatus(io, status)} ${reason ?? ''} ${dim(id)}`);
  io.out(dim(`observed by ${device_id}: ${JSON.stringify(data)}`));
  for (const { id: step, action, params, device_id: target, depends_on } of steps) {
    const after = depends_on.length === 0 ? '' : ` after ${depends_on.join(', ')}`;
    io.out(`  ${step} ${dim(`${action} ${JSON.stringify(params)} on ${target}${after}`)}`);
  }
  if (plan_id !== undefined) io.out(dim(`plan ${plan_id}`));
}
