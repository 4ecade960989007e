import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inviteMember } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { accessibility, openConsolePage, overflowsHorizontally, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('tags in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let browser: Browser;
  let lamp = '';

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    lamp = (await register(owner, { name: 'Desk lamp', tags: ['evening'] })).device_id;
    await register(owner, { name: 'Porch light', tags: ['evening', 'outdoor'] });
    await register(owner, { name: 'Fan' });
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  it('are added and removed on the page of a device by admins, and shown to users', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open(`/devices/${lamp}`);
    await page.getByLabel('New tag').fill('floor:2');
    await page.getByRole('button', { name: 'Add tag' }).click();
    await page.getByRole('link', { name: 'floor:2' }).waitFor();
    expect((await owner.get(`/v1/devices/${lamp}`)).body.device.tags).toEqual(['evening', 'floor:2']);
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Remove tag floor:2' }).click();
    await page.getByRole('link', { name: 'floor:2' }).waitFor({ state: 'detached' });
    expect((await owner.get(`/v1/devices/${lamp}`)).body.device.tags).toEqual(['evening']);
    await page.getByLabel('New tag').fill('Not Valid');
    await page.getByRole('button', { name: 'Add tag' }).click();
    await page.getByText('add_tags.0', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'evening' }).click();
    await page.getByText('3 devices, 2 shown').waitFor();
    expect(browserErrors().filter((text) => !text.includes('400'))).toEqual([]);
    await close();

    const user = await inviteMember(at, owner, 'user');
    const seen = await openConsolePage(browser, at, { token: user.token });
    await seen.open(`/devices/${lamp}`);
    await seen.page.getByRole('link', { name: 'evening' }).waitFor();
    expect(await seen.page.getByRole('button', { name: 'Add tag' }).count()).toBe(0);
    await seen.close();
  });

  it('filter the list, and a filter is saved, used again and deleted', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/devices');
    const filterBy = async (tag: string) => {
      await page.getByLabel('Filter by tag').fill(tag);
      await page.getByRole('button', { name: 'Filter', exact: true }).click();
    };
    await filterBy('evening');
    await page.getByText('3 devices, 2 shown').waitFor();
    await filterBy('outdoor');
    await page.getByText('3 devices, 1 shown').waitFor();
    expect(new URL(page.url()).searchParams.getAll('tag')).toEqual(['evening', 'outdoor']);
    await page.getByLabel('Name of the filter').fill('Outside');
    await page.getByRole('button', { name: 'Save filter' }).click();
    await page.getByRole('link', { name: 'Outside' }).waitFor();
    await page.getByText('Saved filters are kept in this browser only.').waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('button', { name: 'Filter without outdoor' }).click();
    await page.getByText('3 devices, 2 shown').waitFor();
    await open('/devices');
    await page.getByText('3 devices', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Outside' }).click();
    await page.getByText('3 devices, 1 shown').waitFor();
    await page.getByRole('row', { name: /Porch light/ }).waitFor();
    await page.setViewportSize({ width: 400, height: 800 });
    expect(await overflowsHorizontally(page)).toBe(false);
    await page.getByRole('button', { name: 'Delete filter Outside' }).click();
    await page.getByRole('link', { name: 'Outside' }).waitFor({ state: 'detached' });
    await page.reload();
    await page.getByText('3 devices, 1 shown').waitFor();
    expect(await page.getByRole('link', { name: 'Outside' }).count()).toBe(0);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});
