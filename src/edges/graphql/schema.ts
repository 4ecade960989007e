import { type GraphQLFieldConfig, type GraphQLFieldConfigMap, GraphQLObjectType, GraphQLSchema } from 'graphql';
import { getDevice, listDevices } from '../../operations/devices/devices.ts';
import type { Context } from './context.ts';
import { memberOf } from './descriptions.ts';
import { Enums } from './enum-types.ts';
import { InputTypes } from './input-types.ts';
import { lazyDetailFields, links } from './links.ts';
import { load } from './loaders.ts';
import { mutationField, refusedType } from './mutations.ts';
import { type Shape, shapeOf } from './operation-shapes.ts';
import { type ObjectShape, OutputTypes } from './output-types.ts';
import { queryField } from './queries.ts';
import { mutations, queries } from './root-fields.ts';
import { subscriptionFields } from './subscriptions.ts';

let built: readonly [GraphQLSchema, GraphQLSchema] | undefined;

/** The schema that is shown, and the one that is executed; built once per process, as both depend on the operations alone. */
export const getSchemas = (): readonly [GraphQLSchema, GraphQLSchema] =>
  (built ??= [makeSchema(), makeSchema({ executed: true })]);

/** The whole schema, from the operations' own; `executed`: with what documents are rewritten to (plain.ts). */
export function makeSchema({ executed = false } = {}): GraphQLSchema {
  const enums = new Enums();
  const inputs = new InputTypes(enums);
  const whole = objectIn(memberOf(shapeOf(getDevice.output, 'output').shape, 'device'));
  const part = objectIn(memberOf(shapeOf(listDevices.output, 'output').shape, 'devices'));
  const outputs = new OutputTypes({
    enums,
    links: {
      ...links,
      Device: (outputs) => ({
        ...lazyDetailFields(whole, part, outputs, (context, { id }) => load.device(context, `${id}`)),
        ...links.Device?.(outputs),
      }),
    },
    renamed: [
      [/^DeviceEntry$/, 'Device'],
      [/Preview$/, 'Preview'],
      [/Compensation$/, 'Compensation'],
      [/^HealthyServices./, 'HealthPart'],
    ],
  });
  // The whole of it goes before its part.
  outputs.object(whole, 'Device');
  const makers = { inputs, outputs, refused: refusedType(enums), executed };
  return new GraphQLSchema({
    description: 'All that REST does, over the same operations: the same roles, scopes, refusals and audit.',
    query: root('Query', queries, (name, row) => queryField(makers, name, row)),
    mutation: root('Mutation', mutations, (name, row) => mutationField(makers, name, row)),
    subscription: new GraphQLObjectType({ name: 'Subscription', fields: subscriptionFields(outputs, enums) }),
  });
}

function root<Row>(
  name: string,
  table: Readonly<Record<string, Row>>,
  make: (name: string, row: Row) => GraphQLFieldConfig<unknown, Context>,
): GraphQLObjectType<unknown, Context> {
  const fields: GraphQLFieldConfigMap<unknown, Context> = {};
  for (const [field, row] of Object.entries(table)) fields[field] = make(field, row);
  return new GraphQLObjectType({ name, fields });
}

function objectIn(shape: Shape): ObjectShape {
  if (shape.kind === 'list') return objectIn(shape.of.shape);
  if (shape.kind !== 'object') throw new Error('that is no object');
  return shape;
}
