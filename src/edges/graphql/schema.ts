import {
  DirectiveLocation,
  GraphQLDirective,
  type GraphQLField,
  type GraphQLFieldConfig,
  type GraphQLFieldConfigMap,
  type GraphQLInputField,
  type GraphQLNamedType,
  GraphQLObjectType,
  GraphQLSchema,
  getNamedType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
  isUnionType,
  specifiedDirectives,
  validateSchema,
} from 'graphql';
import { getDevice, listDevices } from '../../operations/devices/devices.ts';
import { SlicedBuild } from '../shared/sliced-build.ts';
import { memberOf } from './descriptions.ts';
import { Enums } from './enum-types.ts';
import type { GraphqlContext } from './graphql-context.ts';
import { InputTypes } from './input-types.ts';
import { lazyDetailFields, links } from './links.ts';
import { load } from './loaders.ts';
import { mutationField, refusedType } from './mutations.ts';
import { type Shape, shapeOf } from './operation-shapes.ts';
import { type ObjectShape, OutputTypes } from './output-types.ts';
import { queryField } from './queries.ts';
import { mutations, queries } from './root-fields.ts';
import { subscriptionFields } from './subscriptions.ts';

/** The public schema and the executed one. Built once per process: both depend only on the operations. */
export const schemas = new SlicedBuild(
  (function* (): Generator<void, readonly [GraphQLSchema, GraphQLSchema]> {
    return [yield* schemaSteps(), yield* schemaSteps({ executed: true })];
  })(),
);

/** Builds the schema from the operations. `executed` adds the fields that documents are rewritten to (list-projection.ts). */
export const makeSchema = (options: { executed?: boolean } = {}): GraphQLSchema =>
  new SlicedBuild(schemaSteps(options)).get();

function* schemaSteps({ executed = false }: { executed?: boolean } = {}): Generator<void, GraphQLSchema> {
  const enums = new Enums();
  const inputs = new InputTypes(enums);
  const full = objectIn(memberOf(shapeOf(getDevice.output, 'output').shape, 'device'));
  const part = objectIn(memberOf(shapeOf(listDevices.output, 'output').shape, 'devices'));
  const outputs = new OutputTypes({
    enums,
    links: {
      ...links,
      Device: (outputs) => ({
        ...lazyDetailFields(full, part, outputs, (context, { id }) => load.device(context, `${id}`)),
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
  // The full record is built first: it and the list entry share one type.
  outputs.object(full, 'Device');
  yield;
  const builders = { inputs, outputs, connections: new Map(), refused: refusedType(enums), executed };
  const query = yield* root('Query', queries, (name, row) => queryField(builders, name, row));
  const mutation = yield* root('Mutation', mutations, (name, row) => mutationField(builders, name, row));
  const subscription = new GraphQLObjectType({ name: 'Subscription', fields: subscriptionFields(outputs, enums) });
  yield* resolveFields([query, mutation, subscription]);
  const schema = new GraphQLSchema({
    directives: portableDirectives,
    description: 'The same operations as REST, with the same roles, scopes, refusals and audit entries.',
    ...{ query, mutation, subscription },
  });
  yield;
  // The schema keeps the result, which the first document would compute otherwise.
  validateSchema(schema);
  return schema;
}

/** Computes the fields of all types, which the types keep; otherwise the schema computes them at once. */
function* resolveFields(roots: readonly GraphQLNamedType[]): Generator<void, void> {
  const found = new Set(roots);
  for (const type of found) {
    if (isUnionType(type)) for (const member of type.getTypes()) found.add(member);
    if (!isObjectType(type) && !isInterfaceType(type) && !isInputObjectType(type)) continue;
    for (const field of Object.values<GraphQLField<unknown, unknown> | GraphQLInputField>(type.getFields())) {
      found.add(getNamedType(field.type));
      if ('args' in field) for (const { type } of field.args) found.add(getNamedType(type));
    }
    yield;
  }
}

/**
 * The directives of GraphQL without the location DIRECTIVE_DEFINITION, which is younger than the specification of October
 * 2021: clients that know that one only, such as graphql-core 3.2.10, cannot build a schema from it.
 */
const portableDirectives: readonly GraphQLDirective[] = specifiedDirectives.map((directive) => {
  const { locations, ...config } = directive.toConfig();
  const known = locations.filter((location) => location !== DirectiveLocation.DIRECTIVE_DEFINITION);
  return known.length === locations.length ? directive : new GraphQLDirective({ ...config, locations: known });
});

function* root<Row>(
  name: string,
  table: Readonly<Record<string, Row>>,
  make: (name: string, row: Row) => GraphQLFieldConfig<unknown, GraphqlContext>,
): Generator<void, GraphQLObjectType<unknown, GraphqlContext>> {
  const fields: GraphQLFieldConfigMap<unknown, GraphqlContext> = {};
  for (const [field, row] of Object.entries(table)) {
    fields[field] = make(field, row);
    yield;
  }
  return new GraphQLObjectType({ name, fields });
}

function objectIn(shape: Shape): ObjectShape {
  if (shape.kind === 'list') return objectIn(shape.of.shape);
  if (shape.kind !== 'object') throw new Error(`expected an object shape, got ${shape.kind}`);
  return shape;
}
