import { parse, print } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rewriteDocument } from '../../../src/edges/graphql/list-projection.ts';
import { makeSchema } from '../../../src/edges/graphql/schema.ts';
import { queryGraphql } from '../../support/graphql.ts';
import type { HttpService } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

const schema = makeSchema({ executed: true });
const executed = (query: string): string => print(rewriteDocument(parse(query), schema));

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
  await mine.register({ name: 'Lamp' });
  const { device_id: id } = await mine.register();
  await mine.call('POST', `/device/${id}/command`, { action: 'turn_on' });
});
afterAll(() => service.close());

const request = async (query: string) => (await queryGraphql(service, query, { token: mine.tokens.owner })).body;

describe('a list of plain objects', () => {
  it.each([
    ['devices', 'id deviceType homeId roomId firmware lastSeen revoked name online called: name'],
    ['confirmations', 'commandId deviceId action params reason requestedAt'],
    ['actors', 'kind id state version since live mailbox quarantined'],
    ['members', 'id email role status'],
    ['audit', 'at by key via action subject outcome requestId'],
    ['homes', 'id homeName timezone createdAt'],
  ])('of %s equals a list whose members are resolved separately', async (list, members) => {
    const plain = `{ ${list}(first: 20) { nodes { ${members} } pageInfo { hasNextPage } } }`;
    expect(executed(plain)).toContain('nodes: plainNodes');
    const fragment = `{ ${list}(first: 20) { nodes { ...F } pageInfo { hasNextPage } } } fragment F on ${list === 'audit' ? 'AuditEntry' : list === 'actors' ? 'ActorEntry' : list.replace(/^(.)(.*)s$/, (_, first: string, rest: string) => first.toUpperCase() + rest)} { ${members} }`;
    expect(executed(fragment)).not.toContain('plainNodes');
    const answer = await request(plain);
    expect(answer.errors).toBeUndefined();
    const { data } = await request(fragment);
    // The audit entry of the first query appears in the result of the second one at most.
    expect(answer.data).toEqual(data);
  });

  it.each([
    ['leads on', '{ devices { nodes { id home { homeName } } } }'],
    ['contains a member that only the whole record has', '{ devices { nodes { id state } } }'],
    ['has a fragment', '{ devices { nodes { ... on Device { id } } } }'],
    ['has a directive', 'query ($a: Boolean!) { devices { nodes { id @include(if: $a) } } }'],
    ['selects a name that is not a member of an object', '{ devices { nodes { __proto__: id name } } }'],
    ['is named twice', '{ devices { nodes { id } nodes { home { homeName } } } }'],
  ])('is unchanged if it %s', (_, query) => expect(executed(query)).toBe(print(parse(query))));

  it('uses the requested aliases', async () => {
    const { data } = await request('{ all: devices(first: 1) { those: nodes { a: id b: id } } }');
    expect(data.all.those).toEqual([{ a: expect.any(String), b: data.all.those[0].a }]);
    const odd = await request('{ devices(first: 1) { nodes { __proto__: id constructor: id } } }');
    const [only] = odd.data.devices.nodes;
    expect(Object.entries(only)).toEqual(['__proto__', 'constructor'].map((key) => [key, data.all.those[0].a]));
  });

  it('is not a field of the schema', async () => {
    const { errors } = await request('{ devices { plainNodes } }');
    expect(errors[0].message).toMatch(/Cannot query field "plainNodes"/);
  });
});
