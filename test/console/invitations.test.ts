import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasChromium } from '../support/chromium.ts';
import {
  accessibility,
  launchConsoleBrowser,
  openConsolePage,
  overflowsHorizontally,
  saveScreenshot,
} from '../support/console-page.ts';
import { startService, type TestService } from '../support/service.ts';

describe.runIf(hasChromium())('an invitation in the console', () => {
  let at: TestService;
  let browser: Browser;

  beforeAll(async () => {
    at = await startService();
    browser = await launchConsoleBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  it.each([
    [1440, 'light'],
    [400, 'dark'],
  ] as const)('has a link with which the person joins, at %i pixels in %s colours', async (width, colorScheme) => {
    const owner = await at.owner();
    const { tenant } = (await owner.get('/v1/tenant')).body;
    const email = `ines-${width}@example.com`;
    const window = { ...{ token: owner.token, width, colorScheme } };
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, window);
    await open('/members');
    await page.getByRole('button', { name: 'Invite member …' }).click();
    await page.getByLabel('Email').fill(email);
    await page.getByRole('button', { name: 'Invite', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: `Invitation of ${email}` });
    await dialog.getByText(`Join ${tenant.name}`).waitFor();
    const link = await dialog.getByLabel('Link').inputValue();
    expect(await accessibility(page)).toEqual([]);
    expect(await overflowsHorizontally(page)).toBe(false);
    await saveScreenshot(page, `invitation-${width}`);
    await dialog.getByRole('button', { name: 'Done' }).click();
    // It can be copied later, too.
    await page.getByRole('button', { name: `Link … ${email}` }).click();
    expect(await dialog.getByLabel('Link').inputValue()).toBe(link);
    await dialog.getByRole('button', { name: 'Done' }).click();

    const ines = await openConsolePage(browser, at, { token: await at.token(`ines-${width}`, { email }) });
    await ines.page.goto(link);
    await ines.page.getByRole('button', { name: `Join ${tenant.name} as user` }).click();
    await ines.page.getByRole('navigation', { name: 'Pages' }).waitFor();
    const { members } = (await owner.get('/v1/tenant/members')).body;
    expect(members).toContainEqual(expect.objectContaining({ email, role: 'user', status: 'active' }));
    await page.reload();
    await page
      .getByRole('row', { name: new RegExp(`^${email}`) })
      .getByText('active')
      .waitFor();
    expect(await page.getByRole('button', { name: `Link … ${email}` }).count()).toBe(0);
    expect([...browserErrors(), ...ines.browserErrors()]).toEqual([]);
    await ines.close();
    await close();
  });
});
