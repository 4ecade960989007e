import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

interface Response {
  status: number;
  /** Media type without parameters; empty without a body. */
  type: string;
  /** Parsed if it is JSON. */
  body: unknown;
}

/** Validates a response against the served description: null if it conforms, otherwise the violation. */
export type ResponseValidator = (method: string, pattern: string, response: Response) => string | null;

/** Validator for `/openapi.json`, read like an external client. */
// biome-ignore lint/suspicious/noExplicitAny: a document as an external client reads it
export function makeResponseValidator(document: any): ResponseValidator {
  const ajv = new Ajv2020({
    strict: false,
    formats: { uuid: /^[0-9a-f-]{36}$/, 'date-time': /^\d{4}-\d\d-\d\dT.*Z$/ },
  });
  ajv.addSchema({ $id: 'api', components: document.components }, 'api');
  const validators = new Map<string, ValidateFunction>();
  return (method, pattern, { status, type, body }) => {
    const reference = document.paths[pattern][method.toLowerCase()].responses[status];
    if (reference === undefined) return `${status} is not documented: ${JSON.stringify(body)}`;
    const documented = reference.$ref ? document.components.responses[reference.$ref.split('/').at(-1)] : reference;
    if (type === '') return documented.content === undefined ? null : `${status} has no body`;
    const content = documented.content?.[type];
    if (content === undefined) return `${status} as ${type} is not documented`;
    if (type === 'application/problem+json' && !((body as { code: string }).code in content.examples)) {
      return `${status} ${(body as { code: string }).code} is not documented`;
    }
    const key = `${method} ${pattern} ${status} ${type}`;
    const validate =
      validators.get(key) ?? ajv.compile(JSON.parse(JSON.stringify(content.schema).replaceAll('"#/', '"api#/')));
    validators.set(key, validate);
    return validate(body) ? null : `${status}: ${JSON.stringify(validate.errors)} in ${JSON.stringify(body)}`;
  };
}
