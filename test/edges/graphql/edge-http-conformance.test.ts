import { serverAudits } from 'graphql-http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type HttpService, startHttpService } from '../../support/http-service.ts';

let service: HttpService;
beforeAll(async () => {
  service = await startHttpService();
});
afterAll(() => service.close());

const audits = serverAudits({ url: () => `${service.url}/graphql` });

it('the audits of GraphQL over HTTP exist', () => expect(audits.length).toBeGreaterThan(60));

it.each(audits.map((audit) => [`${audit.id} ${audit.name}`, audit] as const))('%s', async (_, audit) => {
  expect(await audit.fn()).toMatchObject({ status: 'ok' });
});
