import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { hasChromium, launchChromium } from '../support/chromium.ts';
import { startService, type TestService } from '../support/service.ts';

describe.runIf(hasChromium())('the GraphQL explorer, in a browser', () => {
  let at: TestService;
  let browser: Browser;

  beforeAll(async () => {
    at = await startService();
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  /** Fails with the browser's errors, such as a refused script or a missing file. */
  async function look(width: number, work: (page: Page) => Promise<void>): Promise<void> {
    const page = await browser.newPage({ viewport: { width, height: 900 } });
    page.setDefaultTimeout(inject('pollMs'));
    const complaints: string[] = [];
    page.on('console', (message) => void (message.type() === 'error' && complaints.push(message.text())));
    page.on('pageerror', (error) => void complaints.push(error.message));
    await page.goto(`${at.url}/graphql`);
    await work(page);
    await page.close();
    expect(complaints).toEqual([]);
  }

  it('runs queries and subscriptions, and shows the schema', async () => {
    const owner = await at.owner();
    await look(1_200, async (page) => {
      await page.getByLabel('Token or API key').fill(owner.token);
      await page.getByRole('button', { name: 'Run' }).click();
      await page.getByText(/^200 after/).waitFor();
      expect(await page.locator('#result').textContent()).toContain('"totalCount": 0');

      await page.getByLabel('Query, mutation or subscription').fill('subscription { planChanged { planId status } }');
      await page.getByRole('button', { name: 'Run' }).click();
      await page.getByText('Subscribed.').waitFor();
      const { body } = await owner.post('/v1/device/register', { device_type: 'smart_light', home_id: owner.homeId });
      await expect
        .poll(
          async () => {
            await owner.post('/v1/plans', { steps: [{ id: 'on', device_id: body.device_id, action: 'turn_on' }] });
            return page.locator('#result').textContent();
          },
          { interval: 500 },
        )
        .toContain('"status": "RUNNING"');
      await page.getByRole('button', { name: 'Stop' }).click();
      await page.getByText('Stopped.').waitFor();

      // Running another subscription replaces the first one.
      await page.getByRole('button', { name: 'Run' }).click();
      await page.getByText('Subscribed.').waitFor();
      await page.getByLabel('Query, mutation or subscription').fill('subscription { stateChanged { deviceId } }');
      await page.getByRole('button', { name: 'Run' }).click();
      await page.getByText('Subscribed.').waitFor();
      await expect.poll(() => page.getByRole('button', { name: 'Stop' }).isEnabled()).toBe(true);
      await page.getByRole('button', { name: 'Stop' }).click();
      await page.getByText('Stopped.').waitFor();

      await page.getByLabel('Query, mutation or subscription').fill('subscription { nothing }');
      await page.getByRole('button', { name: 'Run' }).click();
      await page.getByText('Refused.').waitFor();
      expect(await page.locator('#result').textContent()).toContain('Cannot query field');

      await page.getByRole('button', { name: 'Show schema' }).click();
      await page.getByLabel('Search').fill('commandDevice');
      await page.locator('summary', { hasText: /^Mutation$/ }).waitFor();
      expect(await page.locator('#types details:visible').count()).toBeLessThan(8);
    });
  });

  it('fits a phone screen', async () => {
    await look(360, async (page) => {
      expect(await page.evaluate('document.documentElement.scrollWidth > innerWidth')).toBe(false);
    });
  });
});
