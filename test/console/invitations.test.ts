import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { layoutProblems, openConsolePage, startConsoleService } from '../support/console-page.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('an invitation in the console', () => {
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

  it('has a link with which the person joins, on a large and on a small screen', async () => {
    const owner = await at.owner();
    const { tenant } = (await owner.get('/v1/tenant')).body;
    const email = 'ines@example.com';
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/members');
    await page.getByRole('button', { name: 'Invite member …' }).click();
    await page.getByLabel('Email').fill(email);
    await page.getByRole('button', { name: 'Invite', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: `Invitation of ${email}` });
    await dialog.getByText(`Join ${tenant.name}`).waitFor();
    const link = await dialog.getByLabel('Link').inputValue();
    expect(await layoutProblems(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Done' }).click();
    // It can be copied later, too.
    await page.getByRole('button', { name: `Link … ${email}` }).click();
    expect(await dialog.getByLabel('Link').inputValue()).toBe(link);
    await dialog.getByRole('button', { name: 'Done' }).click();

    const ines = await openConsolePage(browser, at, { token: await at.token('ines', { email }) });
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
