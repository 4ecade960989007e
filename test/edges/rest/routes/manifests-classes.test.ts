import { decodeJwt } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { queryGraphql } from '../../../support/graphql.ts';
import type { HttpService } from '../../../support/http-service.ts';
import { mcpClient } from '../../../support/mcp.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

// The class of an action decides whether a confirmation is required, so no credential of a program may change it.

let service: HttpService;
let mine: TestTenant;
let garage: string;
/** All credentials that an agent could have: keys with all scopes, and an owner's token that was presented at /mcp. */
let programs: Record<string, string>;

const raised = { capabilities: [{ action: 'open', safetyClass: 'CRITICAL' }, { action: 'close' }] };
const lowered = { capabilities: [{ action: 'open' }, { action: 'close' }] };

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
  const key = async (...scopes: string[]) =>
    (await mine.call('POST', '/auth/api-keys', { name: 'agent', scopes })).body.key;
  const seen = await service.token(decodeJwt(mine.tokens.owner).sub as string);
  await (await mcpClient(service.url, seen)).close();
  programs = {
    'a key with all scopes of the role': await key('all'),
    'a key with every scope': await key('*:*'),
    'a key with the two scopes': await key('execute:commands', 'write:manifests'),
    'a token that was presented at /mcp': seen,
  };
  await mine.call('PATCH', '/tenant/policy', { confirm_by: 'person' });
});
beforeEach(async () => {
  garage = (await mine.register({ device_type: 'garage_cover' })).device_id;
});
afterAll(() => service.close());

const manifestOf = async () => (await mine.call('GET', `/devices/${garage}/manifest`)).body;
const opened = async (token: string) =>
  (await mine.call('POST', `/device/${garage}/command`, { action: 'open' }, { token })).body.code;

describe('a manifest', () => {
  it('with a raised class cannot be replaced by a program over REST or GraphQL, and the action still requires a confirmation', async () => {
    expect((await mine.call('POST', `/devices/${garage}/manifest`, raised)).status).toBe(201);
    const before = await manifestOf();
    for (const [name, token] of Object.entries(programs)) {
      const body = { ...lowered, version: before.version };
      const put = await mine.call('PUT', `/devices/${garage}/manifest`, body, { token });
      expect([name, put.status, put.body.code]).toEqual([name, 403, 'FORBIDDEN']);

      const query = `mutation($input: UpdateManifestInput!) {
        updateManifest(input: $input) { __typename ... on Refused { code } } }`;
      const requested = await queryGraphql(service, query, {
        token,
        variables: { input: { ...body, deviceId: garage } },
      });
      expect([name, requested.body.data.updateManifest]).toEqual([name, { __typename: 'Refused', code: 'FORBIDDEN' }]);

      expect([name, await opened(token)]).toEqual([name, 'DRY_RUN_REQUIRED']);
    }
    expect(await manifestOf()).toEqual(before);
  });

  it('cannot be registered by a program', async () => {
    const before = await manifestOf();
    for (const [name, token] of Object.entries(programs)) {
      const post = await mine.call('POST', `/devices/${garage}/manifest`, lowered, { token });
      expect([name, post.status, post.body.code]).toEqual([name, 403, 'FORBIDDEN']);
    }
    expect(await manifestOf()).toEqual(before);
  });

  it('can be replaced by a person, who confirms a lower class; it applies from then on', async () => {
    await mine.call('POST', `/devices/${garage}/manifest`, raised);
    const { version } = await manifestOf();
    const put = await mine.call('PUT', `/devices/${garage}/manifest`, { ...lowered, version });
    expect([put.status, put.body.code]).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect(await opened(programs['a key with all scopes of the role'] as string)).toBe('DRY_RUN_REQUIRED');
    for (const [name, token] of Object.entries(programs)) {
      const path = `/change-requests/${put.body.change_id}`;
      const body = { dry_run_token: put.body.dry_run_token };
      const confirmed = await mine.call('POST', `${path}/confirm`, body, { token });
      const approved = await mine.call('POST', `${path}/approve`, undefined, { token });
      const codes = [confirmed.body.code, approved.body.code];
      expect([name, codes]).toEqual([name, name.includes('two scopes') ? ['FORBIDDEN', 'FORBIDDEN'] : codes]);
      expect([confirmed.status, approved.status]).toEqual([403, 403]);
    }
    const confirmed = await mine.call('POST', `/change-requests/${put.body.change_id}/approve`);
    expect(confirmed.status).toBe(200);
    expect(await opened(programs['a key with all scopes of the role'] as string)).toBeUndefined();
  });
});

describe('an action spelled like one in the registry', () => {
  const register = (...capabilities: object[]) => mine.call('POST', `/devices/${garage}/manifest`, { capabilities });

  it.each(['Unlock', 'UN_LOCK', 'un-lock', 'openValve', 'Open.Valve', 'factory:reset'])(
    '%s has the class of that one at least',
    async (action) => {
      const refused = await register({ action, safetyClass: 'NORMAL' });
      expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'capabilities.0.safetyClass']);
      const made = await register({ action });
      expect([made.status, made.body.capabilities[0].safetyClass]).toEqual([201, 'CRITICAL']);
      const requested = await mine.call('POST', `/device/${garage}/command`, { action });
      expect([requested.status, requested.body.code]).toEqual([409, 'DRY_RUN_REQUIRED']);
    },
  );

  it.each(['Revoke', 'rotateKey'])('%s is internal to the protocol', async (action) => {
    const refused = await register({ action });
    expect([refused.status, refused.body.errors[0].path]).toEqual([400, 'capabilities.0.action']);
    const requested = await mine.call('POST', `/device/${garage}/command`, { action });
    expect([requested.status, requested.body.code]).toEqual([403, 'RESTRICTED_ACTION']);
  });
});
