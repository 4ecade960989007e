import {
  type GraphQLFieldConfig,
  GraphQLID,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  GraphQLString,
} from 'graphql';
import { type Refusal, refusals } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { pascal } from './casing.ts';
import { describeOperation } from './descriptions.ts';
import type { Enums } from './enum-types.ts';
import { type GraphqlContext, performChange } from './graphql-context.ts';
import type { InputTypes } from './input-types.ts';
import { shapeOf } from './operation-shapes.ts';
import type { OutputTypes } from './output-types.ts';
import { refusalExtensions } from './refusal-error.ts';
import type { MutationField } from './root-fields.ts';
import { unionOf, variantOf } from './union-types.ts';

/** Cost of a mutation field, in points (operation-cost.ts). */
const CHANGE_COST = 100;

/** Result of a mutation that was refused. */
class Refused {
  readonly code: Refusal['code'];
  readonly detail: string;
  readonly commandId: Uuid | undefined;

  constructor(refusal: Refusal, { caller }: GraphqlContext) {
    this.code = refusal.code;
    this.detail = refusal.detail;
    this.commandId = refusal.commandId;
    Object.assign(this, refusalExtensions(refusal, caller.requestId));
  }
}

const fieldError = new GraphQLObjectType({
  name: 'FieldError',
  fields: {
    path: { type: new GraphQLNonNull(GraphQLString), description: 'Path of the input field, with its REST name' },
    message: { type: new GraphQLNonNull(GraphQLString) },
  },
});

export const refusedType = (enums: Enums): GraphQLObjectType<Refused, GraphqlContext> =>
  new GraphQLObjectType<Refused, GraphqlContext>({
    name: 'Refused',
    description: 'The mutation was refused: nothing was changed',
    isTypeOf: (value) => value instanceof Refused,
    fields: {
      code: {
        type: new GraphQLNonNull(enums.named('RefusalCode', Object.keys(refusals))),
        description: 'Stable error code',
      },
      detail: { type: new GraphQLNonNull(GraphQLString), description: 'One sentence for people' },
      status: { type: new GraphQLNonNull(GraphQLInt), description: 'HTTP status of the same refusal in REST' },
      requestId: { type: new GraphQLNonNull(GraphQLID) },
      retryAfterS: { type: GraphQLInt, description: 'Seconds to wait before retrying, if retrying can help' },
      errors: { type: new GraphQLList(new GraphQLNonNull(fieldError)), description: 'Errors in the input' },
      // Not `commandId`, which the results of commands have with another type: a query could not select both.
      rejectedCommandId: {
        type: GraphQLID,
        description: 'The command that was stored as rejected',
        resolve: ({ commandId }) => commandId,
      },
    },
  });

export function mutationField(
  {
    inputs,
    outputs,
    refused,
  }: { inputs: InputTypes; outputs: OutputTypes; refused: GraphQLObjectType<Refused, GraphqlContext> },
  name: string,
  { operation, typeNames = [] }: MutationField,
): GraphQLFieldConfig<unknown, GraphqlContext> {
  const place = pascal(name);
  const input = inputs.operationInput(shapeOf(operation.input, 'input').shape, place);
  const output = shapeOf(operation.output, 'output').shape;
  const variants = (output.kind === 'union' ? output.of : [output]).map((shape, n) =>
    variantOf(outputs, shape, typeNames[n] ?? `${place}Result`),
  );
  const payload = unionOf(`${place}Payload`, variants, [{ type: refused, is: (value) => value instanceof Refused }]);
  return {
    type: new GraphQLNonNull(payload),
    description: describeOperation(operation),
    args: { input: { type: new GraphQLNonNull(input.type) } },
    extensions: { cost: CHANGE_COST, operation },
    resolve: async (_, { input: given }, context, { path }) => {
      const outcome = await performChange(context, operation, input.read(given), `${path.key}`);
      return outcome.ok ? (outcome.value.body ?? { done: true }) : new Refused(outcome.refusal, context);
    },
  };
}
