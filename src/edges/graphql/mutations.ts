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
import { pascal } from './casing.ts';
import { type Context, performChange } from './context.ts';
import { describeOperation } from './descriptions.ts';
import type { Enums } from './enum-types.ts';
import type { InputTypes } from './input-types.ts';
import { shapeOf } from './operation-shapes.ts';
import type { OutputTypes } from './output-types.ts';
import { refusalExtensions } from './refusal-error.ts';
import type { MutationField } from './root-fields.ts';
import { unionOf, variantOf } from './union-types.ts';

/** What asking for a change costs (limits.ts). */
const CHANGE_COST = 100;

/** What a change is answered with that is not carried out. */
class Refused {
  readonly code: Refusal['code'];
  readonly detail: string;

  constructor(refusal: Refusal, { caller }: Context) {
    this.code = refusal.code;
    this.detail = refusal.detail;
    Object.assign(this, refusalExtensions(refusal, caller.requestId));
  }
}

const fieldError = new GraphQLObjectType({
  name: 'FieldError',
  fields: {
    path: { type: new GraphQLNonNull(GraphQLString), description: 'The member of the input, by its name in REST' },
    message: { type: new GraphQLNonNull(GraphQLString) },
  },
});

export const refusedType = (enums: Enums): GraphQLObjectType<Refused, Context> =>
  new GraphQLObjectType<Refused, Context>({
    name: 'Refused',
    description: 'A change that was not carried out, and why',
    isTypeOf: (value) => value instanceof Refused,
    fields: {
      code: { type: new GraphQLNonNull(enums.of(Object.keys(refusals), 'RefusalCode')), description: 'Stable' },
      detail: { type: new GraphQLNonNull(GraphQLString), description: 'A sentence' },
      status: { type: new GraphQLNonNull(GraphQLInt), description: 'Of the same refusal in REST' },
      requestId: { type: new GraphQLNonNull(GraphQLID) },
      retryAfterS: { type: GraphQLInt, description: 'Seconds, where waiting helps' },
      errors: { type: new GraphQLList(new GraphQLNonNull(fieldError)), description: 'What is wrong with the input' },
    },
  });

export function mutationField(
  {
    inputs,
    outputs,
    refused,
  }: { inputs: InputTypes; outputs: OutputTypes; refused: GraphQLObjectType<Refused, Context> },
  name: string,
  { operation, typeNames = [] }: MutationField,
): GraphQLFieldConfig<unknown, Context> {
  const place = pascal(name);
  const given = shapeOf(operation.input, 'input').shape;
  const input = inputs.operationInput(given, place);
  const answered = shapeOf(operation.output, 'output').shape;
  const variants = (answered.kind === 'union' ? answered.of : [answered]).map((shape, n) =>
    variantOf(outputs, shape, typeNames[n] ?? `${place}Result`),
  );
  const payload = unionOf(`${place}Payload`, variants, [{ type: refused, is: (value) => value instanceof Refused }]);
  return {
    type: new GraphQLNonNull(payload),
    description: describeOperation(operation),
    args: { input: { type: new GraphQLNonNull(input.type) } },
    extensions: { cost: CHANGE_COST, operation },
    resolve: async (_, { input: asked }, context, { path }) => {
      const outcome = await performChange(context, operation, input.read(asked), `${path.key}`);
      return outcome.ok ? (outcome.value.body ?? { done: true }) : new Refused(outcome.refusal, context);
    },
  };
}
