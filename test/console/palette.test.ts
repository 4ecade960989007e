import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inviteMember } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { accessibility, openConsolePage, overflowsHorizontally, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('the command palette of the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let browser: Browser;
  let lamp = '';

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    lamp = (await register(owner, { device_type: 'smart_light', name: 'Reading lamp' })).device_id;
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  it('opens pages and devices and runs actions, with the keyboard alone', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/plans');
    await page.keyboard.press('Control+k');
    const search = page.getByRole('combobox', { name: 'Search' });
    await search.waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.keyboard.type('reading');
    await page.getByRole('option', { name: 'Reading lamp', selected: true }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Reading lamp' }).waitFor();
    expect(page.url()).toContain(`/devices/${lamp}`);

    await page.keyboard.press('Control+k');
    await page.keyboard.type('home');
    await page.getByRole('option', { name: 'Home', selected: true }).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.press('Escape');
    await search.waitFor({ state: 'detached' });
    await page.keyboard.press('Control+k');
    await page.keyboard.type('device action');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Add a device' }).waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('no such thing');
    await page.getByText('Nothing matches.').waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('is one of the shortcuts that the help lists, which are letters where the user types', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/devices');
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    await page.keyboard.press('?');
    const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
    await help.getByText('Confirmations').waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await help.waitFor({ state: 'detached' });
    await page.getByLabel('Search by name, type or ID').focus();
    await page.keyboard.type('?gp');
    expect(await page.getByLabel('Search by name, type or ID').inputValue()).toBe('?gp');
    expect(await help.count()).toBe(0);
    await page.locator('main').focus();
    await page.keyboard.type('gp');
    await page.getByRole('heading', { level: 1, name: 'Plans' }).waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('has only the pages and actions of the role, and fits a small screen', async () => {
    const viewer = await inviteMember(at, owner, 'viewer', 'vera');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      token: viewer.token,
      width: 400,
    });
    await open('/plans');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByRole('option', { name: 'Home page' }).waitFor();
    expect(await page.getByRole('option', { name: /Audit|Add a device|Reading lamp/ }).count()).toBe(0);
    expect(await overflowsHorizontally(page)).toBe(false);
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('option', { name: 'Home page' }).click();
    await page.getByRole('heading', { level: 1, name: 'Tenant of ada' }).waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });
});
