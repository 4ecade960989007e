import { z } from 'zod';
import { IMPORTED_SEQUENCE, type SampleValue, type SeriesPath, seriesPathOf } from '../../domain/history/sample.ts';
import { iso } from '../../domain/iso-time.ts';
import { done } from '../../domain/refusals.ts';
import { allowsScope } from '../../domain/scopes.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { EpochMs } from '../../domain/values.ts';
import { MAX_DEVICE_SKEW_MS } from '../../store/contract/history.ts';
import { findDevice, pendingReports } from '../devices/device-view.ts';
import { latestSampleAt, propertyPath, retainedHistory } from '../devices/history-range.ts';
import { type LastChange, readLastChange } from '../devices/last-change.ts';
import type { SeriesRef } from '../devices/series-days.ts';
import { idOf, isoTime, timeInput } from '../inputs.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { findPlan } from '../plans/plan-view.ts';
import { memoriesOfStep } from '../plans/shaping-memories.ts';
import { keyNames } from '../requested-with.ts';
import { type CausedBy, causeOfReport, evidences, MAX_EXAMINED_COMMANDS } from './report-cause.ts';
import { commandIn, type EntryDetails, planIn } from './timeline-entry.ts';
import { mayReadPlans } from './timeline-page.ts';
import {
  type ChainLink,
  chainLink,
  commandLink,
  confirmationLink,
  decisionIn,
  memoryLink,
  planLink,
  reportLink,
} from './value-chain.ts';

// Why a property has a value: its last change, and the command, plan and people that caused it.

/** Memories of a chain. */
const MAX_MEMORIES = 10;
/** The journal of a command has few entries before the end of its wait for a confirmation. */
const MAX_JOURNAL = 1_000;

const causeKinds = ['command', 'device', 'import', 'unknown'] as const;
const hiddenParts = ['commands', 'plans'] as const;

const cause = z
  .object({
    kind: z.enum(causeKinds).meta({
      description:
        '`command`: a command caused it; `device`: no command is known that could have, so the device reported it by itself; `import`: the report is from before the registration and was imported; `unknown`: see `text`',
    }),
    certain: z.boolean().meta({ description: 'False of a command that only probably caused it' }),
    evidence: z.enum(evidences).nullable().meta({
      description:
        'Of a command. `ack`: the device reported the value in its acknowledgement; `verification`: the report verified the command; `expected_value`: the command was open and expected the value; `expected_property`: it was open and expected another value of the property',
    }),
    text: z.string(),
  })
  .meta({ id: 'ValueCause' });
type Cause = z.infer<typeof cause>;

const explanation = z
  .object({
    device_id: uuid,
    property: z.string(),
    at: isoTime.meta({ description: 'The value at this time is explained' }),
    // Any JSON includes null, and OpenAPI describes both as one.
    value: z
      .json()
      .optional()
      .meta({ description: 'A number, a boolean or a text; null if nothing was reported until then' }),
    value_before: z.json().optional().meta({ description: 'Null if it is not known' }),
    changed_from: isoTime.nullable().meta({ description: 'The time of the report that changed the value' }),
    changed_until: isoTime.nullable().meta({
      description: 'Later than `changed_from` if the report has expired: it changed within this interval',
    }),
    received_at: isoTime.nullable().meta({ description: 'Of the report; null if it has expired' }),
    sequence_number: z.number().nullable().meta({ description: 'Of the report; null if it has expired' }),
    cause,
    chain: z
      .array(chainLink)
      .meta({ description: 'The events that led to the value, from the report back to its origin' }),
    left_out: z.array(z.enum(hiddenParts)).meta({
      description:
        'Parts that the credential may not read: they need `read:commands` and `read:plans`, and restricted keys see no plans',
    }),
  })
  .meta({ id: 'ValueExplanation' });
type Explanation = z.infer<typeof explanation>;

const AT = '2026-03-01T12:00:00.000Z';
const DEVICE_ID = '0195d9a2-7f00-7000-8000-000000000001';
const USER_ID = '0195d9a2-7f00-7000-8000-000000000002';
const COMMAND_ID = '0195d9a2-7f00-7000-8000-000000000003';

const causeTexts: Readonly<Record<CausedBy['evidence'], string>> = {
  ack: 'A command caused it: the device reported the value when it acknowledged the command.',
  verification: 'A command caused it: the command expected the value, and this report verified it.',
  expected_value: 'A command probably caused it: it had been sent to the device, and expected this value.',
  expected_property:
    'A command probably caused it: it had been sent to the device, and expected another value of this property.',
};

const example = {
  output: {
    explanation: {
      ...{ device_id: DEVICE_ID, property: 'locked', at: AT, value: false, value_before: true },
      ...{ changed_from: '2026-03-01T11:58:02.000Z', changed_until: '2026-03-01T11:58:02.000Z' },
      ...{ received_at: '2026-03-01T11:58:02.041Z', sequence_number: 1290 },
      cause: { kind: 'command', certain: true, evidence: 'ack', text: causeTexts.ack },
      chain: [
        {
          ...{ kind: 'report', at: '2026-03-01T11:58:02.000Z', text: 'The device reported false instead of true' },
          ...{ id: null, by: null, credential: null },
        },
        {
          ...{ kind: 'command', at: '2026-03-01T11:57:40.000Z', text: 'Unlock succeeded', id: COMMAND_ID },
          ...{ by: USER_ID, credential: { kind: 'person' } },
        },
      ],
      left_out: [],
    } satisfies Explanation,
  },
};

export const explainValue = operation({
  name: 'explainValue',
  summary: 'Explain a value of a device: the report that changed it, and the command, plan and person that caused it',
  input: z.strictObject({
    id: idOf('device'),
    property: propertyPath,
    at: timeInput.optional().meta({ description: 'The value at this time. Default: now' }),
  }),
  output: z.object({ explanation }),
  role: 'user',
  scope: 'read:history',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND', 'OVERLOADED'],
  example,
  needs: ['actors', 'clock', 'settings', 'store'],
  async run(services, { input, caller }) {
    const found = await findDevice(services, caller, input.id);
    if (!found.ok) return found;
    const now = services.clock.now();
    const latest = latestSampleAt(now);
    const at = input.at === undefined ? latest : Math.min(Date.parse(input.at), latest);
    const { from } = seriesPathOf(input.property) as SeriesPath;
    const { createdAt } = found.value.snapshot.context.fixed;
    const series = {
      ...{ tenantId: tenantOf(caller), deviceId: input.id, property: input.property, createdAt },
      ...{ from, pending: pendingReports(found.value) },
    };
    const retained = await retainedHistory(services, series.tenantId, now);
    const read =
      at < retained.rollupsFrom ? done(null) : await readLastChange(services, { ...series, at, ...retained });
    if (!read.ok) return read;
    const asked = { device_id: input.id, property: input.property, at: iso(Math.min(at, now)) };
    const body = read.value === null ? nothingReported : await explain(services, caller, series, read.value);
    return done({ body: { explanation: { ...asked, ...body } } });
  },
});

type Explained = Omit<Explanation, 'device_id' | 'property' | 'at'>;

const unknown = (text: string): Cause => ({ kind: 'unknown', certain: false, evidence: null, text });

const reportedByItself: Cause = {
  ...{ kind: 'device', certain: true, evidence: null },
  text: 'No command is known that caused it: the device reported it by itself.',
};

const nothingReported: Explained = {
  ...{ value: null, value_before: null, changed_from: null, changed_until: null },
  ...{ received_at: null, sequence_number: null, chain: [], left_out: [] },
  cause: unknown('The history has no report of this property up to then.'),
};

type ExplainServices = Pick<Services, 'actors' | 'clock' | 'settings' | 'store'>;

interface Series extends SeriesRef {
  from: SeriesPath['from'];
  /** When the device was registered. */
  createdAt: EpochMs;
}

async function explain(
  services: ExplainServices,
  caller: Caller,
  series: Series,
  change: LastChange,
): Promise<Explained> {
  const { value, before, sample, from, to } = change;
  const mayReadCommands = allowsScope(caller.scopes, 'read:commands');
  const found = mayReadCommands ? await findCause(services, series, change) : null;
  const links = found?.caused ? await linksOf(services, caller, found.caused.command) : [];
  return {
    ...{ value, value_before: before, changed_from: iso(from), changed_until: iso(to) },
    received_at: sample === null ? null : iso(sample.at),
    sequence_number: sample === null ? null : sample.sequence,
    cause: found?.cause ?? unknown('The credential may not read commands, so that the cause is not shown.'),
    chain: [reportLink(change), ...links],
    left_out: hiddenParts.filter((part) => !(part === 'commands' ? mayReadCommands : mayReadPlans(caller))),
  };
}

async function findCause(
  services: Pick<Services, 'clock' | 'settings' | 'store'>,
  series: Series,
  { value, sample, to }: { value: SampleValue; sample: LastChange['sample']; to: EpochMs },
): Promise<{ cause: Cause; caused: CausedBy | null }> {
  // A `hello` has the sequence number of the message before it, which may be an acknowledgement.
  if (series.from === 'telemetry') return { caused: null, cause: reportedByItself };
  // Of an expired report only the time is known, and a device reports nothing from before its registration.
  if (sample === null ? to <= series.createdAt - MAX_DEVICE_SKEW_MS : sample.sequence === IMPORTED_SEQUENCE) {
    const text = 'The report is from before the registration of the device, and was imported.';
    return { caused: null, cause: { kind: 'import', certain: true, evidence: null, text } };
  }
  const receivedAt = sample?.at ?? to;
  const sequence = sample?.sequence ?? null;
  const { cause: caused, isComplete } = await causeOfReport(services, { ...series, value, receivedAt, sequence });
  if (caused !== null) {
    const { evidence } = caused;
    const certain = evidence === 'ack' || evidence === 'verification';
    return { caused, cause: { kind: 'command', certain, evidence, text: causeTexts[evidence] } };
  }
  const { clock, settings } = services;
  const commandsFrom = clock.now() - settings.commandRetentionDays * 86_400_000;
  if (receivedAt < commandsFrom) return { caused, cause: unknown('The commands of that time have been deleted.') };
  if (!isComplete) {
    const text = `None of the last ${MAX_EXAMINED_COMMANDS} commands before it caused it; earlier ones were not examined.`;
    return { caused, cause: unknown(text) };
  }
  if (sample === null) {
    const text = 'The exact report has expired, and no command that was open in this minute expected the property.';
    return { caused, cause: unknown(text) };
  }
  return { caused, cause: reportedByItself };
}

/** The command and what led to it, as far as the caller may read it. */
async function linksOf(
  services: Pick<Services, 'actors' | 'store'>,
  caller: Caller,
  command: CausedBy['command'],
): Promise<ChainLink[]> {
  const { inspection } = services.store;
  const tenantId = tenantOf(caller);
  const origin = mayReadPlans(caller) ? planIn(command) : null;
  const [journal, plan] = await Promise.all([
    inspection.journal(tenantId, command.command.ref, MAX_JOURNAL),
    origin === null ? null : findPlan(services, caller, origin.id),
  ]);
  const context = plan?.ok ? plan.value.snapshot.context : null;
  const decision = decisionIn(journal);
  const { requestedBy } = commandIn(command);
  const principals = [requestedBy, ...(decision ? [decision.by] : []), ...(context ? [context.fixed.createdBy] : [])];
  const details: EntryDetails = {
    ...{ deviceNames: new Map(), keyNames: await keyNames(services, principals), mayReadPlans: mayReadPlans(caller) },
    planNames: new Map(context?.fixed.name == null ? [] : [[context.fixed.id, context.fixed.name]]),
  };
  const confirmation = confirmationLink(command, decision, details);
  const memories = context && origin ? memoriesOfStep(context, origin).slice(0, MAX_MEMORIES) : [];
  return [
    commandLink(command, details),
    ...(confirmation === null ? [] : [confirmation]),
    ...(context === null ? [] : [planLink(context, details.keyNames)]),
    ...memories.map(memoryLink),
  ];
}
