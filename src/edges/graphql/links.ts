import { GraphQLID, GraphQLInt, GraphQLList, GraphQLNonNull } from 'graphql';
import { refuse } from '../../domain/refusals.ts';
import { camel } from './casing.ts';
import type { GraphqlContext } from './graphql-context.ts';
import { load } from './loaders.ts';
import type { Fields, ObjectShape, OutputTypes } from './output-types.ts';
import { RefusalError } from './refusal-error.ts';

// Fields that link one type to another. The targets are loaded in one batch per answer, with the same role and scope checks
// as everywhere else.

type Source = Readonly<Record<string, unknown>>;

const MAX_LINKED_ITEMS = 200;
const first = (defaultValue: number) => ({
  type: new GraphQLNonNull(GraphQLInt),
  default: { value: defaultValue },
  description: `At most ${MAX_LINKED_ITEMS}`,
});
const clampFirst = (requested: number): number => Math.min(MAX_LINKED_ITEMS, Math.max(1, requested));

function idsAfter(ids: readonly string[], after: unknown, { caller }: GraphqlContext): readonly string[] {
  if (typeof after !== 'string') return ids;
  const place = ids.indexOf(after.toLowerCase());
  if (place >= 0) return ids.slice(place + 1);
  throw new RefusalError(
    refuse('VALIDATION_FAILED', 'after: must be the ID of a device in the group').refusal,
    caller.requestId,
  );
}

const devicesLink = (
  outputs: OutputTypes,
  loadDevices: (context: GraphqlContext, id: string, limit: number) => Promise<unknown>,
  filter: string,
): Fields => ({
  devices: {
    type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(outputs.typeNamed('Device')))),
    description: `Newest first, also revoked ones; use \`devices(${filter}:)\` for paging`,
    args: { first: first(20) },
    extensions: { assumedEntries: 'first' },
    resolve: ({ id }, args, context) => loadDevices(context, `${id}`, clampFirst(args.first as number)),
  },
});

const deviceLink = (outputs: OutputTypes, member = 'device_id'): Fields => ({
  device: {
    type: outputs.typeNamed('Device'),
    description: 'Null if it was deleted',
    resolve: (source, _, context) => load.device(context, `${source[member]}`),
  },
});

/** By type name. */
export const links: Readonly<Record<string, (outputs: OutputTypes) => Fields>> = {
  Device: (outputs) => ({
    home: {
      type: outputs.typeNamed('Home'),
      resolve: ({ home_id }, _, context) => (home_id === null ? null : load.home(context, `${home_id}`)),
    },
    room: {
      type: outputs.typeNamed('Room'),
      resolve: ({ room_id }, _, context) => (room_id === null ? null : load.room(context, `${room_id}`)),
    },
    manifest: {
      type: outputs.typeNamed('Manifest'),
      description: 'Its capabilities; null if it has no manifest',
      resolve: ({ id }, _, context) => load.manifest(context, `${id}`),
    },
  }),
  Home: (outputs) => ({
    rooms: {
      type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(outputs.typeNamed('Room')))),
      description: 'Newest first; use `rooms(homeId:)` for paging',
      args: { first: first(20) },
      extensions: { assumedEntries: 'first' },
      resolve: ({ id }, args, context) => load.roomsOf(context, `${id}`, clampFirst(args.first as number)),
    },
    ...devicesLink(outputs, load.devicesOfHome, 'homeId'),
  }),
  Room: (outputs) => ({
    home: {
      type: outputs.typeNamed('Home'),
      resolve: ({ home_id }, _, context) => load.home(context, `${home_id}`),
    },
    ...devicesLink(outputs, load.devicesOfRoom, 'roomId'),
  }),
  Group: (outputs) => ({
    devices: {
      type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(outputs.typeNamed('Device')))),
      description: 'In the order of `deviceIds`, from the start or after a device; deleted devices are left out',
      args: { first: first(20), after: { type: GraphQLID, description: 'A device of the group' } },
      extensions: { assumedEntries: 'first' },
      resolve: async ({ device_ids }, args, context) => {
        const ids = idsAfter(device_ids as string[], args.after, context).slice(0, clampFirst(args.first as number));
        const found = await Promise.all(ids.map((id) => load.device(context, id)));
        return found.filter((one) => one !== null);
      },
    },
  }),
  Command: (outputs) => deviceLink(outputs),
  TenantCommand: (outputs) => deviceLink(outputs),
  Confirmation: (outputs) => deviceLink(outputs),
  PlanStep: (outputs) => deviceLink(outputs),
  TimelineEntry: (outputs) => deviceLink(outputs),
  StateChange: (outputs) => deviceLink(outputs),
  PresenceChange: (outputs) => deviceLink(outputs),
  CommandChange: (outputs) => deviceLink(outputs),
  ConfirmationChange: (outputs) => deviceLink(outputs),
};

/**
 * Fields that only the full record has, for types that also appear as a shorter list entry. They are loaded when selected,
 * in one batch for the full list.
 */
export function lazyDetailFields(
  full: ObjectShape,
  part: ObjectShape,
  outputs: OutputTypes,
  loadFull: (context: GraphqlContext, source: Source) => Promise<Source | null>,
): Fields {
  const known = new Set(part.members.map(({ name }) => name));
  const rest = full.members.filter(({ name }) => !known.has(name));
  const fields = outputs.fields(rest, full.name ?? '');
  for (const { name } of rest) {
    const field = fields[camel(name)];
    if (field === undefined) continue;
    // Not a leaf member: the list entry may lack it.
    field.extensions = {};
    field.resolve = (source, _, context) =>
      name in source ? source[name] : loadFull(context, source).then((found) => found?.[name]);
  }
  return fields;
}
