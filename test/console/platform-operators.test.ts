import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { accessibility, openConsolePage, overflowsHorizontally, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('platform operators in the console', () => {
  let at: TestService;
  let ada: Awaited<ReturnType<TestService['owner']>>;
  let grace: Awaited<ReturnType<TestService['owner']>>;
  let browser: Browser;
  let operator: string;

  beforeAll(async () => {
    at = await startConsoleService();
    ada = await at.owner('ada');
    grace = await at.owner('grace');
    operator = await at.token('root', { email: 'root@example.com', scope: 'platform:admin' });
    await register(ada, { name: 'Porch light' });
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  it('see the tenant that they choose, from its figures to each of its actors', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: operator });
    await open('/');
    expect(await page.getByText('Devices online').count()).toBe(0);
    await page.getByRole('combobox', { name: 'Tenant' }).selectOption(ada.tenantId);
    await page.getByText('Devices online').waitFor();
    await page.getByText('of 1', { exact: true }).waitFor();
    await page.getByText('Nothing needs attention.').waitFor();

    await open('/actors');
    await page.getByText('You are not a member of a tenant.').waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('combobox', { name: 'Tenant' }).selectOption(ada.tenantId);
    await page.getByText('2 actors', { exact: true }).waitFor();
    expect(await accessibility(page)).toEqual([]);
    await page.getByRole('link', { name: 'Porch light' }).click();
    await page.getByRole('heading', { level: 1, name: 'Porch light' }).waitFor();
    await page.getByText('Live', { exact: true }).waitFor();
    await page.getByText('register', { exact: true }).first().waitFor();
    expect(new URL(page.url()).searchParams.get('tenant_id')).toBe(ada.tenantId);
    await page.getByRole('link', { name: 'Actors' }).last().click();
    await page.getByText('2 actors', { exact: true }).waitFor();

    await page.getByRole('combobox', { name: 'Tenant' }).selectOption(grace.tenantId);
    await page.getByText('1 actor', { exact: true }).waitFor();
    expect(await page.getByText('Porch light').count()).toBe(0);
    await page.setViewportSize({ width: 400, height: 860 });
    expect(await overflowsHorizontally(page)).toBe(false);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('suspend a tenant, whose users see on every page that it is and who can resume it', async () => {
    const edith = await at.owner('edith');
    const { page, open, close } = await openConsolePage(browser, at, {
      token: edith.token,
      expects: [403],
    });
    await open('/actors');
    await page.getByText('Live', { exact: true }).waitFor();
    const texts = { reason: 'Chargeback', notice: 'Your <b>subscription</b> has ended.' };
    await at.api(operator).post(`/v1/admin/tenants/${edith.tenantId}/suspend`, texts);
    const banner = page.getByText(/is suspended\. Its data cannot be read or changed/);
    await banner.waitFor();
    await page.getByText('Notice of the operator: “Your <b>subscription</b> has ended.”').waitFor();
    await page.getByText('Only an operator of the service can resume it.', { exact: true }).waitFor();
    expect(await page.getByText('Chargeback').count()).toBe(0);
    await page.setViewportSize({ width: 320, height: 700 });
    for (const path of ['/', '/devices', '/members']) {
      await page.goto(`${at.url}/console${path}`);
      await banner.waitFor();
      expect(await overflowsHorizontally(page)).toBe(false);
    }
    expect(await accessibility(page)).toEqual([]);
    await at.api(operator).post(`/v1/admin/tenants/${edith.tenantId}/resume`, {});
    await page.goto(`${at.url}/console/devices`);
    await page.getByRole('heading', { level: 1, name: 'Devices' }).waitFor();
    expect(await banner.count()).toBe(0);
    await close();
  });

  it('are the only ones: for others the address of a tenant shows no tenant', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: grace.token });
    await open(`/actors?tenant_id=${ada.tenantId}`);
    await page.getByText('1 actor', { exact: true }).waitFor();
    expect(await page.getByText('Porch light').count()).toBe(0);
    expect(await page.getByRole('combobox', { name: 'Tenant' }).count()).toBe(0);
    expect(browserErrors()).toEqual([]);
    await close();
    const refused = await at.api(grace.token).get(`/v1/overview?tenant_id=${ada.tenantId}`);
    expect(refused.status).toBe(403);
  });
});
