import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

interface Answered {
  status: number;
  /** Without its parameters; empty where there is no body. */
  type: string;
  /** Parsed, where it is JSON. */
  body: unknown;
}

/** What the served description says of an answer: null where it holds, else what is wrong. */
export type ResponseValidator = (method: string, pattern: string, answered: Answered) => string | null;

/** From `/openapi.json` as a stranger reads it. */
// biome-ignore lint/suspicious/noExplicitAny: a document as a stranger reads it
export function makeResponseValidator(document: any): ResponseValidator {
  const ajv = new Ajv2020({
    strict: false,
    formats: { uuid: /^[0-9a-f-]{36}$/, 'date-time': /^\d{4}-\d\d-\d\dT.*Z$/ },
  });
  ajv.addSchema({ $id: 'api', components: document.components }, 'api');
  const validators = new Map<string, ValidateFunction>();
  return (method, pattern, { status, type, body }) => {
    const told = document.paths[pattern][method.toLowerCase()].responses[status];
    if (told === undefined) return `${status} is not documented: ${JSON.stringify(body)}`;
    const documented = told.$ref ? document.components.responses[told.$ref.split('/').at(-1)] : told;
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
