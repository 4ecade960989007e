import { serverAudits } from 'graphql-http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type House, makeHouse } from '../../support/house.ts';

let house: House;
beforeAll(async () => {
  house = await makeHouse();
});
afterAll(() => house.close());

const audits = serverAudits({ url: () => `${house.url}/graphql` });

it('has the audits of GraphQL over HTTP', () => expect(audits.length).toBeGreaterThan(60));

it.each(audits.map((audit) => [`${audit.id} ${audit.name}`, audit] as const))('%s', async (_, audit) => {
  expect(await audit.fn()).toMatchObject({ status: 'ok' });
});
