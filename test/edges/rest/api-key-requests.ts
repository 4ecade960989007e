import { afterEach, beforeEach, expect } from 'vitest';
import { type CallResult, type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';

// A service with an owner, and requests about API keys.

export const HOUR = 3_600_000;

/** New for each test. */
export let service: HttpService<MemoryStore>;
export let owner: { token: string; userId: string; tenantId: string };

/** Starts a service before each test of the file, and closes it after the test. */
export function withOwner(): void {
  beforeEach(async () => {
    service = await startHttpService();
    owner = await service.owner();
  });
  afterEach(() => service.close());
}

export const post = (path: string, token: string | undefined, body?: unknown, headers: Record<string, string> = {}) =>
  service.call('POST', `/v1${path}`, { token, body, headers });
export const create = (
  token: string,
  body: object = { name: 'build', scopes: ['all'] },
  headers?: Record<string, string>,
) => post('/auth/api-keys', token, body, headers);
export const list = (token: string, query = '') => service.call('GET', `/v1/auth/api-keys${query}`, { token });
export const me = (key: string) => service.call('GET', '/v1/auth/me', { token: key });
export const answer = ({ status, body }: CallResult) => [status, body.code];

export async function newKey(token = owner.token, more: object = {}): Promise<{ key: string; prefix: string }> {
  const { status, body } = await create(token, { name: 'build', scopes: ['all'], ...more });
  expect(status).toBe(201);
  return body;
}
