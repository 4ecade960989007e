import { afterAll, beforeAll, beforeEach } from 'vitest';
import type { HttpService } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

export let service: HttpService;
/** New for each test. */
export let mine: TestTenant;
/** The same for all tests of a file. */
export let other: TestTenant;

/** Starts a service before the tests of the file, and closes it after them. */
export function withTwoTenants(): void {
  beforeAll(async () => {
    service = await startHttpServiceOnDatabase();
    other = await makeTestTenant(service);
  });
  beforeEach(async () => {
    mine = await makeTestTenant(service);
  });
  afterAll(() => service.close());
}
