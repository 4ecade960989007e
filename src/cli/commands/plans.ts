import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { isFinalPlanStatus, type PlanStatus, type StepStatus, stepPhaseOf, stepStatuses } from '../../domain/plan.ts';
import type { StateChanges } from '../../domain/twin.ts';
import type { JsonObject } from '../../domain/values.ts';
import type { Api, RequestOptions } from '../api.ts';
import { parseIntegerBetween } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { FailedError, UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { waitForOutcome } from '../outcome-watch.ts';
import { fetchPages } from '../pagination.ts';
import { colorStatus, formatChanges, printJson, printTable } from '../print.ts';
import { subscribeToInterrupt } from '../signals.ts';
import { formatUpdate } from './watch.ts';

export interface StepRecord {
  id: string;
  device_id: string;
  action: string;
  params: JsonObject;
  depends_on: string[];
  status: StepStatus;
  command_id?: string;
  error?: { code: string; detail: string };
}
export interface PlanRecord {
  id: string;
  name: string | null;
  status: PlanStatus;
  steps: StepRecord[];
  created_at: string;
  finished_at: string | null;
  cognition?: {
    goal?: string;
    summary?: string;
    final_state?: JsonObject;
    reason?: string;
    error?: { code: string; detail: string };
  };
}
interface StepVerdict {
  id: string;
  verdict: string;
  preview: { changes: StateChanges | null };
}
interface RunOptions {
  dryRun?: boolean;
  watch?: boolean;
}

const planPath = (id: string, verb = ''): string => `/v1/plans/${encodeURIComponent(id)}${verb}`;

export function addPlans(program: Command, io: Io): void {
  const plans = program
    .command('plans')
    .summary('run and inspect plans')
    .description('Runs and inspects plans: graphs of device commands that are rolled back if a step fails.');
  plans
    .command('list', { isDefault: true })
    .description('Lists plans, newest first.')
    .option('--limit <n>', 'maximum number of entries', parseIntegerBetween(1, 200), 200)
    .option('--cursor <cursor>', 'continue after the previous page')
    .action(async ({ limit, cursor }: { limit: number; cursor?: string }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      type Body = { plans: PlanRecord[]; next_cursor: string | null };
      const page = await fetchPages<Body>(api, '/v1/plans', { name: 'plans', limit, query: { cursor } });
      show(page, ({ plans: found, next_cursor }) => {
        const rows = found.map((plan) => [
          ...[plan.id, plan.name ?? '', plan.status, stepsText(plan), plan.created_at, plan.finished_at],
        ]);
        printTable(io, ['ID', 'NAME', 'STATUS', 'STEPS', 'CREATED', 'FINISHED'], rows);
        if (next_cursor !== null) io.err(io.errColors.dim(`more: --cursor ${next_cursor}`));
      });
    });
  plans
    .command('show <plan>')
    .description('Shows a plan as a tree: each step below its last dependency.')
    .option('--watch', 'follow the plan to its end; exit with 1 unless it succeeds')
    .action(async (plan: string, { watch }: { watch?: boolean }, command: Command) => {
      const client = createCliContext(io, command);
      const id = await client.resolve('plan', plan);
      const fetch = () => fetchPlan(client.api, id);
      if (watch) await followPlan(client, fetch);
      else client.show({ plan: await fetch() }, (found) => showPlan(io, found.plan));
    });
  plans
    .command('run <file>')
    .alias('create')
    .description('Runs the plan in a JSON file, in the format of POST /v1/plans; - reads stdin.')
    .option('--dry-run', 'only print the verdict for each step')
    .option('--watch', 'follow the plan to its end; exit with 1 unless it succeeds')
    .addHelpText('after', '\nExample:\n  twinkeep plans run good-night.json --watch')
    .action(async (file: string, { dryRun, watch }: RunOptions, command: Command) => {
      const client = createCliContext(io, command);
      const content = parsePlan(file === '-' ? await text(io.stdin) : readPlanFile(file));
      if (dryRun) {
        const body = await client.api.post<{ steps: StepVerdict[] }>('/v1/plans', { ...content, dry_run: true });
        client.show(body, ({ steps }) => showVerdicts(io, steps));
        return;
      }
      const create = async () => (await client.api.post<{ plan: PlanRecord }>('/v1/plans', content)).plan;
      if (watch) await followPlan(client, create);
      else client.show({ plan: await create() }, ({ plan }) => io.out(plan.id));
    });
  plans
    .command('cancel <plan>')
    .description('Cancels a plan: starts no further step and rolls back completed steps that define a compensation.')
    .option('--reason <text>', 'reason, stored with the plan')
    .action(async (plan: string, { reason }: { reason?: string }, command: Command) => {
      const { api, show, resolve } = createCliContext(io, command);
      const id = await resolve('plan', plan, { whole: true });
      const body = await api.post<{ plan: PlanRecord }>(
        planPath(id, '/cancel'),
        reason === undefined ? {} : { reason },
      );
      show(body, (cancelled) => showPlan(io, cancelled.plan));
    });
}

function readPlanFile(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function parsePlan(content: string): object {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (error) {
    throw new UsageError(`the plan is not valid JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UsageError('a plan must be a JSON object');
  return value;
}

/**
 * The finished steps of all, as `1/2`. For a plan that ended without success how its steps ended, as
 * `1 compensated, 1 failed`; without steps the code of the sidecar's error.
 */
export function stepsText({ status, steps, cognition }: Pick<PlanRecord, 'status' | 'steps' | 'cognition'>): string {
  if (status === 'succeeded' || !isFinalPlanStatus(status)) {
    return `${steps.filter(isStepFinal).length}/${steps.length}`;
  }
  const counts = new Map<StepStatus, number>();
  for (const step of steps) counts.set(step.status, (counts.get(step.status) ?? 0) + 1);
  const outcomes = stepStatuses.filter((one) => counts.has(one)).map((one) => `${counts.get(one)} ${one}`);
  return outcomes.length === 0 ? (cognition?.error?.code ?? 'none') : outcomes.join(', ');
}

const isStepFinal = ({ status }: StepRecord): boolean => stepPhaseOf(status) === 'final';

/** Fetches a plan; retries when the tenant's rate limit is exceeded. */
export async function fetchPlan(api: Api, id: string): Promise<PlanRecord> {
  const options: RequestOptions = { retryWhenBusy: true, idempotent: true };
  return (await api.request<{ plan: PlanRecord }>('GET', planPath(id), options)).body.plan;
}

/** Prints the updates of the plan that `start` returns until it ends or Ctrl-C, then prints the plan. */
export async function followPlan({ api, io, json, show }: CliContext, start: () => Promise<PlanRecord>): Promise<void> {
  const interrupted = Promise.withResolvers<void>();
  const unsubscribe = subscribeToInterrupt(() => interrupted.resolve());
  const plan = await waitForOutcome<PlanRecord>(api, {
    updates: { events: ['plan'] },
    start: async () => {
      const { id, status } = await start();
      return { id, ended: isFinalPlanStatus(status) };
    },
    read: (id) => fetchPlan(api, id),
    hasEnded: ({ status }) => isFinalPlanStatus(status),
    isAbout: ({ plan_id }, id) => plan_id === id,
    isFinalUpdate: ({ step_id, status }) => step_id === undefined && isFinalPlanStatus(status as PlanStatus),
    onUpdate: (update) => show(update, () => io.out(formatUpdate(io, update))),
    cancelled: interrupted.promise,
  }).finally(unsubscribe);
  if (plan === null) return;
  if (json) printJson(io, { plan });
  else showPlan(io, plan);
  if (plan.status !== 'succeeded') throw new FailedError(`the plan is ${plan.status}`);
}

export function showPlan(io: Io, { id, name, status, steps, cognition }: PlanRecord): void {
  const { bold, dim } = io.outColors;
  io.out(`${bold(name ?? 'Plan')} ${colorStatus(io, status)} ${dim(id)}`);
  const summary = cognition?.error ? `${cognition.error.code}: ${cognition.error.detail}` : cognition?.summary;
  if (summary !== undefined) io.out(summary);
  if (cognition?.final_state !== undefined) io.out(`final state ${JSON.stringify(cognition.final_state)}`);
  if (cognition?.reason !== undefined) io.out(`planning is suspended: ${cognition.reason}`);
  for (const { indent, step, otherDependencies } of planTree(steps)) {
    const { id: stepId, status: stepStatus, action, params, command_id, error } = step;
    const dependencies = otherDependencies.length === 0 ? '' : ` also after ${otherDependencies.join(', ')}`;
    const description = `${action} ${JSON.stringify(params)}${dependencies}`;
    const reason = error === undefined ? '' : ` ${error.code}: ${error.detail}`;
    io.out(
      `${dim(indent)}${stepId} ${colorStatus(io, stepStatus)} ${dim(description)}${reason} ${dim(command_id ?? '')}`.trimEnd(),
    );
  }
}

interface Branch {
  /** Tree lines printed before the step. */
  indent: string;
  step: StepRecord;
  /** Dependencies other than the parent in the tree. */
  otherDependencies: string[];
}

/** Arranges the steps as a tree: each step once, below its deepest dependency. */
export function planTree(steps: readonly StepRecord[]): Branch[] {
  const byId = new Map(steps.map((step) => [step.id, step]));
  const depths = new Map<string, number>();
  const depthOf = (id: string): number => {
    const known = depths.get(id);
    if (known !== undefined) return known;
    const depth = Math.max(-1, ...(byId.get(id)?.depends_on ?? []).map(depthOf)) + 1;
    depths.set(id, depth);
    return depth;
  };
  const parentOf = ({ depends_on }: StepRecord): string | undefined =>
    [...depends_on].sort((a, b) => depthOf(b) - depthOf(a))[0];
  const below = (parent: string | undefined, indent: string): Branch[] => {
    const children = steps.filter((step) => parentOf(step) === parent);
    return children.flatMap((step, n) => {
      const isLast = n === children.length - 1;
      const otherDependencies = step.depends_on.filter((id) => id !== parent);
      const branch: Branch = { indent: `${indent}${isLast ? '└─ ' : '├─ '}`, step, otherDependencies };
      return [branch, ...below(step.id, `${indent}${isLast ? '   ' : '│  '}`)];
    });
  };
  return below(undefined, '');
}

function showVerdicts(io: Io, steps: readonly StepVerdict[]): void {
  for (const { id, verdict, preview } of steps) {
    io.out(`${id} ${colorStatus(io, verdict)}`);
    for (const change of formatChanges(io.outColors, preview.changes)) io.out(`  ${change}`);
  }
}
