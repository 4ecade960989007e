import {
  GraphQLBoolean,
  GraphQLError,
  type GraphQLFieldConfig,
  type GraphQLFieldConfigMap,
  GraphQLFloat,
  GraphQLID,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  GraphQLString,
} from 'graphql';
import { commandStatuses, verificationStatuses } from '../../domain/command.ts';
import { planStatuses, stepStatuses } from '../../domain/plan.ts';
import { refuse } from '../../domain/refusals.ts';
import type { JsonObject } from '../../domain/values.ts';
import type { Update } from '../shared/live/update.ts';
import { type UpdateKindName, updateKinds } from '../shared/live/update-kinds.ts';
import { Backlog } from './backlog.ts';
import type { Enums } from './enum-types.ts';
import type { GraphqlContext } from './graphql-context.ts';
import type { Fields, OutputTypes } from './output-types.ts';
import { RefusalError } from './refusal-error.ts';
import { dateTimeScalar, jsonObjectScalar, jsonScalar } from './scalars.ts';

/** A filter argument of a subscription, matched against a member of the update. */
interface SubscriptionFilter {
  argument: string;
  member: string;
  about: string;
}

interface SubscriptionField {
  kind: UpdateKindName;
  name: string;
  filters: readonly SubscriptionFilter[];
  fields(enums: Enums): Fields;
}

const required = { id: new GraphQLNonNull(GraphQLID), time: new GraphQLNonNull(dateTimeScalar) };
const enumOf = (enums: Enums, name: string, values: readonly string[]) => new GraphQLNonNull(enums.named(name, values));
const resolveMember = (member: string) => ({ resolve: (source: Readonly<Record<string, unknown>>) => source[member] });
const timestampField: Fields = { timestamp: { type: required.time } };
const deviceFields: Fields = { deviceId: { type: required.id, ...resolveMember('device_id') }, ...timestampField };
const deviceFilter: SubscriptionFilter = { argument: 'deviceIds', member: 'device_id', about: 'Only these devices' };
const commandFilter: SubscriptionFilter = {
  argument: 'commandIds',
  member: 'command_id',
  about: 'Only these commands',
};

/** A missing kind of update does not compile. */
const subscriptionTable: {
  readonly [Kind in UpdateKindName as `${Kind}Changed`]: SubscriptionField & { kind: Kind };
} = {
  stateChanged: {
    kind: 'state',
    name: 'StateChange',
    filters: [deviceFilter],
    fields: () => ({
      ...deviceFields,
      state: { type: new GraphQLNonNull(jsonObjectScalar), description: 'The complete reported state' },
    }),
  },
  reportChanged: {
    kind: 'report',
    name: 'ReportChange',
    filters: [deviceFilter],
    fields: () => ({
      ...deviceFields,
      report: { type: new GraphQLNonNull(jsonObjectScalar), description: 'The report of the message' },
      deviceTimestamp: { type: required.time, ...resolveMember('device_timestamp') },
      sequenceNumber: { type: new GraphQLNonNull(GraphQLFloat), ...resolveMember('sequence_number') },
    }),
  },
  presenceChanged: {
    kind: 'presence',
    name: 'PresenceChange',
    filters: [deviceFilter],
    fields: () => ({ ...deviceFields, online: { type: new GraphQLNonNull(GraphQLBoolean) } }),
  },
  telemetryChanged: {
    kind: 'telemetry',
    name: 'TelemetryChange',
    filters: [deviceFilter],
    fields: () => ({
      ...deviceFields,
      deviceTimestamp: { type: required.time, ...resolveMember('device_timestamp') },
      battery: { type: GraphQLFloat, description: 'Percent' },
      rssi: { type: GraphQLFloat, description: 'dBm' },
      uptimeS: { type: GraphQLFloat, ...resolveMember('uptime_s') },
      freeHeap: { type: GraphQLFloat, description: 'Bytes', ...resolveMember('free_heap') },
      deviceType: { type: GraphQLString, ...resolveMember('device_type') },
      manifestVersion: { type: GraphQLInt, ...resolveMember('manifest_version') },
    }),
  },
  commandChanged: {
    kind: 'command',
    name: 'CommandChange',
    filters: [commandFilter, deviceFilter],
    fields: (enums) => ({
      commandId: { type: required.id, ...resolveMember('command_id') },
      ...deviceFields,
      status: { type: enumOf(enums, 'CommandStatus', commandStatuses) },
      verification: { type: enumOf(enums, 'VerificationStatus', verificationStatuses) },
      progress: { type: jsonScalar, description: 'The last progress that the device reported' },
      code: { type: GraphQLString, description: 'The code of the refusal of a rejected command' },
      reason: { type: GraphQLString, description: 'The refusal of a rejected command, in one sentence' },
    }),
  },
  confirmationChanged: {
    kind: 'confirmation',
    name: 'ConfirmationChange',
    filters: [commandFilter, deviceFilter],
    fields: (enums) => ({
      commandId: { type: required.id, ...resolveMember('command_id') },
      ...deviceFields,
      status: { type: enumOf(enums, 'CommandStatus', commandStatuses) },
      expiresAt: { type: required.time, ...resolveMember('expires_at') },
      dryRun: {
        type: new GraphQLNonNull(GraphQLBoolean),
        description: 'A requested dry run, which is not in the inbox by default',
        resolve: ({ dry_run }) => dry_run === true,
      },
    }),
  },
  planChanged: {
    kind: 'plan',
    name: 'PlanChange',
    filters: [{ argument: 'planIds', member: 'plan_id', about: 'Only these plans' }],
    fields: (enums) => ({
      planId: { type: required.id, ...resolveMember('plan_id') },
      ...timestampField,
      status: { type: enumOf(enums, 'PlanStatus', planStatuses) },
      stepId: {
        type: GraphQLString,
        description: 'Present if the status of one of its steps changed',
        ...resolveMember('step_id'),
      },
      stepStatus: { type: enums.named('PlanStepStatus', stepStatuses), ...resolveMember('step_status') },
    }),
  },
};

/** The kind of update that a subscription's root field delivers. */
export const updateKindOf = (field: string): UpdateKindName | null =>
  Object.hasOwn(subscriptionTable, field) ? subscriptionTable[field as keyof typeof subscriptionTable].kind : null;

export function subscriptionFields(outputs: OutputTypes, enums: Enums): GraphQLFieldConfigMap<unknown, GraphqlContext> {
  return Object.fromEntries(Object.entries(subscriptionTable).map(([name, row]) => [name, field(outputs, enums, row)]));
}

function field(
  outputs: OutputTypes,
  enums: Enums,
  row: SubscriptionField,
): GraphQLFieldConfig<unknown, GraphqlContext> {
  const { description, role, scope } = updateKinds[row.kind];
  return {
    type: new GraphQLNonNull(outputs.eventType(row.name, () => row.fields(enums))),
    description: `${description} Needs the role \`${role}\` and the scope \`${scope}\`.`,
    args: Object.fromEntries(
      row.filters.map(({ argument, about }) => [
        argument,
        { type: new GraphQLList(new GraphQLNonNull(GraphQLID)), description: about },
      ]),
    ),
    subscribe: (_, given, context) => createSourceStream(row, given as FilterArguments, context),
    resolve: (update) => update,
  };
}

const updatesLost = () =>
  new GraphQLError('Updates were lost, because the store did not answer in time. Subscribe again.', {
    extensions: { code: 'STORE_UNAVAILABLE', status: 503 },
  });

type FilterArguments = Readonly<Record<string, readonly string[] | null | undefined>>;

function createSourceStream(
  { kind, filters }: SubscriptionField,
  given: FilterArguments,
  { eventSource, caller, openReach }: GraphqlContext,
): AsyncIterable<JsonObject> {
  if (eventSource === null || caller.tenantId === null) {
    const { refusal } = refuse('TENANT_REQUIRED', 'Register a tenant or accept an invitation first.');
    throw new RefusalError(refusal, caller.requestId);
  }
  const wanted = filters.flatMap(({ argument, member }) => {
    const ids = given[argument];
    return ids ? [{ member, ids: new Set(ids.map((id) => id.toLowerCase())) }] : [];
  });
  const listener = (update: Update) => {
    const message = update.message();
    if (!wanted.every(({ member, ids }) => ids.has(`${message[member]}`))) return;
    if (reach === null) backlog.push(update.subject, message);
    else reach.deliver(update.deviceId, () => backlog.push(update.subject, message));
  };
  const unsubscribe = eventSource.subscribe(kind, caller.tenantId, listener);
  const reach = openReach(() => backlog.fail(updatesLost()));
  const backlog = new Backlog<JsonObject>(() => {
    reach?.close();
    unsubscribe();
  });
  return backlog;
}
