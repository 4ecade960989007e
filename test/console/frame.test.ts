import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { layoutProblems, openConsolePage, PHONES, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

describe.runIf(hasChromium())('the pages of an owner', () => {
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

  it('have the whole navigation and whole device names in a window of 1280 x 860', async () => {
    await register(owner, { device_type: 'environment_sensor', name: 'Living room ceiling light by the window' });
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/devices');
    const link = page.getByRole('link', { name: 'Living room ceiling light by the window' });
    await link.waitFor();
    /** Pixels of the content of each element that are cut, in the direction. */
    const cut = (selector: string, direction: 'Width' | 'Height') =>
      page.evaluate(
        `[...document.querySelectorAll('${selector}')].map((one) => one.scroll${direction} - one.client${direction})`,
      );
    expect(await cut('.side, .side nav', 'Height')).toEqual([0, 0]);
    const signOut = await page.getByRole('button', { name: 'Sign out' }).boundingBox();
    expect(signOut && signOut.y + signOut.height).toBeLessThanOrEqual(860);
    expect(await cut('.long thead .long-row, .device-cell a', 'Width')).toEqual([0, 0]);
    expect(await cut('.device-cell a', 'Height')).toEqual([0]);
    await page.getByText('Ctrl K').waitFor();
    // Where not all pages fit, they scroll and the foot remains visible.
    await page.setViewportSize({ width: 1_280, height: 600 });
    const foot = await page.getByRole('button', { name: 'Sign out' }).boundingBox();
    expect(foot && foot.y + foot.height).toBeLessThanOrEqual(600);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('show no key and a shadow at the edge of wide tables on a phone', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token, width: 400 });
    await open('/members');
    const table = page.getByRole('group', { name: 'Members' });
    await table.waitFor();
    expect(await page.getByText('Ctrl K').isVisible()).toBe(false);
    const isCut = await table.evaluate(
      (one: { scrollWidth: number; clientWidth: number }) => one.scrollWidth > one.clientWidth,
    );
    expect(isCut).toBe(true);
    // The covers scroll with the content, the shadows at the edges do not.
    const attachment = "getComputedStyle(document.querySelector('.scroll')).backgroundAttachment";
    expect(await page.evaluate(attachment)).toBe('local, local, scroll, scroll');
    expect(await layoutProblems(page, PHONES)).toEqual([]);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});
