import {
  GraphQLBoolean,
  type GraphQLFieldConfig,
  type GraphQLFieldConfigMap,
  GraphQLID,
  GraphQLList,
  GraphQLNonNull,
  GraphQLString,
} from 'graphql';
import { commandStatuses, verificationStatuses } from '../../domain/command.ts';
import { planStatuses, stepStatuses } from '../../domain/plan.ts';
import { refuse } from '../../domain/refusals.ts';
import type { JsonObject } from '../../domain/values.ts';
import { type KindName, kinds } from '../shared/live/kinds.ts';
import type { Update } from '../shared/live/update.ts';
import { Backlog } from './backlog.ts';
import type { Context } from './context.ts';
import type { Enums } from './enums.ts';
import type { Fields, Outputs } from './outputs.ts';
import { Refusing } from './refusing.ts';
import { dateTime, jsonObject } from './scalars.ts';

/** What a subscription may be narrowed to, by the member of what is told. */
interface Narrowing {
  argument: string;
  member: string;
  about: string;
}

interface Row {
  kind: KindName;
  name: string;
  narrowing: readonly Narrowing[];
  fields(enums: Enums): Fields;
}

const sure = { id: new GraphQLNonNull(GraphQLID), time: new GraphQLNonNull(dateTime) };
const words = (enums: Enums, values: readonly string[], place: string) => new GraphQLNonNull(enums.of(values, place));
const from = (member: string) => ({ resolve: (source: Readonly<Record<string, unknown>>) => source[member] });
const at: Fields = { timestamp: { type: sure.time } };
const ofDevice: Fields = { deviceId: { type: sure.id, ...from('device_id') }, ...at };
const devices: Narrowing = { argument: 'deviceIds', member: 'device_id', about: 'Only of these devices' };
const commands: Narrowing = { argument: 'commandIds', member: 'command_id', about: 'Only these commands' };

const rows: Readonly<Record<string, Row>> = {
  stateChanged: {
    kind: 'state',
    name: 'StateChange',
    narrowing: [devices],
    fields: () => ({
      ...ofDevice,
      state: { type: new GraphQLNonNull(jsonObject), description: 'The whole reported state' },
    }),
  },
  presenceChanged: {
    kind: 'presence',
    name: 'PresenceChange',
    narrowing: [devices],
    fields: () => ({ ...ofDevice, online: { type: new GraphQLNonNull(GraphQLBoolean) } }),
  },
  commandChanged: {
    kind: 'command',
    name: 'CommandChange',
    narrowing: [commands, devices],
    fields: (enums) => ({
      commandId: { type: sure.id, ...from('command_id') },
      ...ofDevice,
      status: { type: words(enums, commandStatuses, 'CommandStatus') },
      verification: { type: words(enums, verificationStatuses, 'VerificationStatus') },
    }),
  },
  confirmationChanged: {
    kind: 'confirmation',
    name: 'ConfirmationChange',
    narrowing: [commands, devices],
    fields: (enums) => ({
      commandId: { type: sure.id, ...from('command_id') },
      ...ofDevice,
      status: { type: words(enums, commandStatuses, 'CommandStatus') },
      expiresAt: { type: sure.time, ...from('expires_at') },
    }),
  },
  planChanged: {
    kind: 'plan',
    name: 'PlanChange',
    narrowing: [{ argument: 'planIds', member: 'plan_id', about: 'Only these plans' }],
    fields: (enums) => ({
      planId: { type: sure.id, ...from('plan_id') },
      ...at,
      status: { type: words(enums, planStatuses, 'PlanStatus') },
      stepId: { type: GraphQLString, description: 'Where one of its steps went on', ...from('step_id') },
      stepStatus: { type: enums.of(stepStatuses, 'PlanStepStatus'), ...from('step_status') },
    }),
  },
};

/** The kind of update that a root field of subscriptions tells. */
export const kindOf = (field: string): KindName | null =>
  Object.hasOwn(rows, field) ? (rows[field]?.kind ?? null) : null;

export function subscriptionFields(outputs: Outputs, enums: Enums): GraphQLFieldConfigMap<unknown, Context> {
  return Object.fromEntries(Object.entries(rows).map(([name, row]) => [name, field(outputs, enums, row)]));
}

function field(outputs: Outputs, enums: Enums, row: Row): GraphQLFieldConfig<unknown, Context> {
  const { about, role, scope } = kinds[row.kind];
  return {
    type: new GraphQLNonNull(outputs.made(row.name, () => row.fields(enums))),
    description: `${about} Needs the role \`${role}\` and the scope \`${scope}\`.`,
    args: Object.fromEntries(
      row.narrowing.map(({ argument, about }) => [
        argument,
        { type: new GraphQLList(new GraphQLNonNull(GraphQLID)), description: about },
      ]),
    ),
    subscribe: (_, given, context) => listen(row, given as Given, context),
    resolve: (told) => told,
  };
}

type Given = Readonly<Record<string, readonly string[] | null | undefined>>;

function listen({ kind, narrowing }: Row, given: Given, { feed, caller }: Context): AsyncIterable<JsonObject> {
  if (feed === null || caller.tenantId === null) {
    const { refusal } = refuse('TENANT_REQUIRED', 'Register a tenant or accept an invitation first.');
    throw new Refusing(refusal, caller.requestId);
  }
  const wanted = narrowing.flatMap(({ argument, member }) => {
    const ids = given[argument];
    return ids ? [{ member, ids: new Set(ids.map((id) => id.toLowerCase())) }] : [];
  });
  const ear = (update: Update) => {
    const message = update.message();
    if (wanted.every(({ member, ids }) => ids.has(`${message[member]}`))) backlog.put(update.subject, message);
  };
  const stop = feed.listen(kind, caller.tenantId, ear);
  const backlog = new Backlog<JsonObject>(stop);
  return backlog;
}
