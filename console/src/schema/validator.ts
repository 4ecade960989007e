import './buffer-polyfill.ts';
import { type RJSFSchema, type RJSFValidationError, toErrorSchema, type ValidatorType } from '@rjsf/utils';
import { checkParams } from '../../../src/domain/param-schema.ts';
import type { Json, JsonObject } from '../../../src/domain/values.ts';

/** As it will be sent: what the form left undefined is not there. */
const sent = (data: unknown): Json => (data === undefined ? {} : (JSON.parse(JSON.stringify(data)) as Json));

function errorsOf(schema: RJSFSchema, data: unknown): RJSFValidationError[] {
  return checkParams(schema as JsonObject, sent(data), '').map(({ path, message }) => ({
    name: 'parameter',
    property: path,
    message,
    stack: path === '' ? `The parameters: ${message}` : `${path.slice(1)} ${message}`,
  }));
}

/**
 * Checks a form with the service's own rules for parameters, so that both say the same. The usual validator compiles schemas,
 * which the page's Content-Security-Policy refuses.
 */
export const validator: ValidatorType = {
  validateFormData(data, schema, _custom, transform, uiSchema) {
    const errors = errorsOf(schema, data);
    const told = transform === undefined ? errors : transform(errors, uiSchema);
    return { errors: told, errorSchema: toErrorSchema(told) };
  },
  // A part of a form is checked as a parameter: what stands at the root of a schema has rules of its own.
  isValid: (schema, data) =>
    data === undefined ||
    checkParams({ type: 'object', properties: { part: schema as JsonObject } }, { part: sent(data) }).length === 0,
  rawValidation: <Result>(schema: RJSFSchema, data?: unknown) => ({ errors: errorsOf(schema, data) as Result[] }),
};
