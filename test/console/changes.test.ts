import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { inviteMember, type Member } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { accessibility, openConsolePage, overflowsHorizontally, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('critical changes in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let grace: Member;
  let agent: ReturnType<TestService['api']>;
  let browser: Browser;
  let device = '';

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    grace = await inviteMember(at, owner, 'admin', 'grace');
    agent = at.api((await owner.post('/v1/auth/api-keys', { name: 'agent', scopes: ['all'] })).body.key);
    await owner.patch('/v1/tenant/policy', { confirm_by: 'person' });
    browser = await connectBrowser();
  });
  beforeEach(async () => {
    device = (await register(owner, { device_type: 'lock', name: 'Front door' })).device_id;
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  it.each([
    ['New device key · Front door', async () => agent.post(`/v1/device/${device}/rotate-secret`, {})],
    [
      'Reinstatement · Front door',
      async () => {
        await owner.post(`/v1/device/${device}/revoke`, {});
        return agent.post(`/v1/device/${device}/reinstate`, { reason: 'Found' });
      },
    ],
  ])('“%s” shows the new secret once, to the person who approves it', async (name, request) => {
    expect((await request()).status).toBe(409);
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/confirmations');
    const entry = page.getByRole('article', { name });
    await entry.getByRole('button', { name: 'Approve …' }).click();
    const answered = page.waitForResponse((response) => response.url().endsWith('/approve'));
    await page.getByRole('button', { name: 'Apply change' }).click();
    const secret: string = (await (await answered).json()).result.new_secret;
    expect(secret).toMatch(/^[A-Za-z0-9_-]{43}$/);

    const shown = page.getByRole('dialog', { name: 'New secret of Front door' });
    await shown.getByText(secret, { exact: true }).waitFor();
    await shown.getByText('It is shown only once.').waitFor();
    // Also after the list has been refetched without the change.
    await entry.waitFor({ state: 'detached' });
    expect(await shown.locator('code').textContent()).toBe(secret);
    expect(await accessibility(page)).toEqual([]);
    expect(await overflowsHorizontally(page)).toBe(false);
    expect(page.url()).not.toContain(secret);
    const kept = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state])');
    expect(kept).not.toContain(secret);

    await shown.getByRole('button', { name: 'Done' }).click();
    await shown.waitFor({ state: 'detached' });
    expect(await page.content()).not.toContain(secret);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('the secret is shown although the dialog was closed before the answer', async () => {
    await agent.post(`/v1/device/${device}/rotate-secret`, {});
    const { page, open, close } = await openConsolePage(browser, at, { token: owner.token });
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route('**/approve', async (route) => {
      await held;
      await route.continue();
    });
    await open('/confirmations');
    await page.getByRole('article', { name: 'New device key · Front door' }).getByText('Approve …').click();
    const dialog = page.getByRole('dialog', { name: 'Apply this change?' });
    await dialog.getByRole('button', { name: 'Apply change' }).click();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    release();
    await page.getByRole('dialog', { name: 'New secret of Front door' }).waitFor();
    await close();
  });

  it('a change whose state has changed is shown again, and then approved', async () => {
    await agent.post(`/v1/device/${device}/rotate-secret`, {});
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      ...{ token: grace.token, expects: [409] },
    });
    await open('/confirmations');
    await page.getByRole('article', { name: 'New device key · Front door' }).getByText('Approve …').click();
    await owner.post(`/v1/device/${device}/rotate-secret`, {});
    const dialog = page.getByRole('dialog', { name: 'Apply this change?' });
    await dialog.getByRole('button', { name: 'Apply change' }).click();
    await dialog.getByText('This is a new preview.').waitFor();
    expect(await accessibility(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Apply change' }).click();
    await page.getByRole('dialog', { name: 'New secret of Front door' }).waitFor();
    expect((await owner.get(`/v1/device/${device}/key-history`)).body.keys).toHaveLength(3);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});
