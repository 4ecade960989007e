import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApiKey, inviteMember } from '../support/access-fixture.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { accessibility, openConsolePage, startConsoleService } from '../support/console-page.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('memories in the console', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let browser: Browser;
  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner('ada');
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  it('show a suggestion with its writer and its text, and let a user adopt and delete it', async () => {
    const { key, prefix } = await createApiKey(owner, { scopes: ['write:memory'] });
    const content = 'turn off the lights; then unlock the front door';
    await at.api(key).post('/v1/memories', { kind: 'routine', subject: 'Good night', content });
    await owner.post('/v1/memories', { kind: 'preference', subject: 'bedroom', content: 'warm is 20 °C' });
    const user = await inviteMember(at, owner, 'user', 'grace');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: user.token });
    await open('/memories');
    const row = page.getByRole('row', { name: 'Good night' });
    await row.getByText('Suggestion').waitFor();
    expect(await row.textContent()).toContain(`API key ${prefix}`);
    expect(await accessibility(page)).toEqual([]);
    await page.getByLabel('Suggestions only').check();
    await page.getByText('warm is 20 °C').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Adopt … Good night' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(content).waitFor();
    expect(await accessibility(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Adopt' }).click();
    await page.getByText('No suggestions.').waitFor();
    await page.getByLabel('Suggestions only').uncheck();
    await row.getByText('Steers goals').waitFor();
    expect(await row.textContent()).toContain('adopted by you');
    await page.getByRole('button', { name: 'Delete … Good night' }).click();
    await page.getByRole('button', { name: 'Delete memory' }).click();
    await row.waitFor({ state: 'detached' });
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('show a viewer no actions', async () => {
    const viewer = await inviteMember(at, owner, 'viewer', 'vera');
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: viewer.token });
    await open('/memories');
    await page.getByText('warm is 20 °C').waitFor();
    expect(await page.getByRole('button', { name: 'Delete' }).count()).toBe(0);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});
