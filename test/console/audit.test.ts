import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { accessibility, openConsolePage, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('the audit in the console', () => {
  let at: TestService;
  let browser: Browser;

  beforeAll(async () => {
    at = await startConsoleService();
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  it('leaves sign-ins and tickets of pages out of the audit unless they are requested', async () => {
    const owner = await at.owner();
    expect((await owner.post('/v1/homes', { home_name: 'Cabin' })).status).toBe(201);
    for (let number = 0; number < 4; number++) expect((await owner.post('/ws/ticket')).status).toBe(201);
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    // With pages of two entries there are pages that have only tickets.
    await page.route('**/v1/audit?*', (route) =>
      route.continue({ url: route.request().url().replace('limit=100', 'limit=2') }),
    );
    await open('/audit');
    const rows = (name: string) => page.getByRole('row').filter({ hasText: name });
    await rows('Create home').first().waitFor();
    expect(
      await page
        .getByRole('row')
        .filter({ hasText: /ws ticket|cookie session/ })
        .count(),
    ).toBe(0);
    await page.getByLabel('Show sign-ins and tickets of pages').check();
    await rows('Create ws ticket').first().waitFor();
    await rows('Open cookie session').first().waitFor();
    await page.waitForURL(/pages=true/);
    expect(await accessibility(page)).toEqual([]);
    await page.getByLabel('Show sign-ins and tickets of pages').uncheck();
    await rows('ws ticket').first().waitFor({ state: 'detached' });
    await page.getByLabel('Action', { exact: true }).fill('create ws ticket');
    await rows('Create ws ticket').first().waitFor();
    expect(await page.getByLabel('Show sign-ins and tickets of pages').isDisabled()).toBe(true);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('does not filter one of two devices of the same name', async () => {
    const owner = await at.owner();
    for (let number = 0; number < 2; number++) await register(owner, { name: 'Hall lamp' });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    // The list has an entry of the newer device only, and the names of the devices come later.
    await page.route('**/v1/audit?*', (route) =>
      route.fulfill({ json: { entries: [entry], count: 1, next_cursor: null } }),
    );
    const [entry] = (await owner.get('/v1/audit?action=registerDevice&limit=1')).body.entries;
    const { promise: typed, resolve: continueDevices } = Promise.withResolvers<void>();
    await page.route('**/v1/devices?*', (route) => typed.then(() => route.continue()));
    await open('/audit');
    await page.getByRole('row', { name: /Register device.*Hall lamp/ }).waitFor();
    const target = page.getByLabel('Target', { exact: true });
    await target.fill('hall lamp');
    continueDevices();
    await page.getByText('Several entries have this name. Choose one from the list.').waitFor();
    expect(new URL(page.url()).searchParams.has('subject')).toBe(false);
    await target.fill(`Hall lamp …${entry.subject.slice(-8)}`);
    await page.waitForURL((url) => url.searchParams.get('subject') === entry.subject);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});
