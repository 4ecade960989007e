import './buffer-polyfill.ts';
import { type RJSFSchema, type RJSFValidationError, toErrorSchema, type ValidatorType } from '@rjsf/utils';
import { checkParams } from '../../../src/domain/param-schema.ts';
import type { Json, JsonObject } from '../../../src/domain/values.ts';

/** The data as it is sent: JSON omits undefined members. */
const serialized = (data: unknown): Json => (data === undefined ? {} : (JSON.parse(JSON.stringify(data)) as Json));

function errorsOf(schema: RJSFSchema, data: unknown): RJSFValidationError[] {
  return checkParams(schema as JsonObject, serialized(data), '').map(({ path, message }) => ({
    name: 'parameter',
    property: path,
    message,
    stack: path === '' ? `Parameters: ${message}` : `${path.slice(1)} ${message}`,
  }));
}

/**
 * Form validator with the service's own parameter rules, so that both report the same errors. The default validator compiles
 * schemas, which the page's Content-Security-Policy forbids.
 */
export const validator: ValidatorType = {
  validateFormData(data, schema, _custom, transform, uiSchema) {
    const errors = errorsOf(schema, data);
    const transformed = transform === undefined ? errors : transform(errors, uiSchema);
    return { errors: transformed, errorSchema: toErrorSchema(transformed) };
  },
  // A part of a form is wrapped in an object, because different rules apply to the root of a schema.
  isValid: (schema, data) =>
    data === undefined ||
    checkParams({ type: 'object', properties: { part: schema as JsonObject } }, { part: serialized(data) }).length ===
      0,
  rawValidation: <Result>(schema: RJSFSchema, data?: unknown) => ({ errors: errorsOf(schema, data) as Result[] }),
};
