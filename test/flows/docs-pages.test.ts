import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { hasChromium, launchChromium } from '../support/chromium.ts';
import { startService, type TestService } from '../support/service.ts';

/** Runs in the page: the lowest contrast (WCAG 2.2 §1.4.3) of its texts, and whether the page is too wide. */
const READABLE = `(() => {
  const light = ([r, g, b]) => {
    const part = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = numbers(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const ratios = [...document.querySelectorAll('main :is(h1, h2, h3, h4, p, li, code, a, span, strong)')].filter((element) => element.checkVisibility()).map((element) => {
    const [high, low] = [light(numbers(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  });
  return { least: Math.min(...ratios), wide: document.documentElement.scrollWidth > innerWidth };
})()`;

describe.runIf(hasChromium())('the API reference, in a browser', () => {
  let at: TestService;
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    at = await startService();
    browser = await launchChromium();
    page = await browser.newPage();
    page.setDefaultTimeout(inject('pollMs'));
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  /** Fails with the browser's errors, such as a refused script or a missing file. */
  async function look(path: string, width: number, colorScheme: 'light' | 'dark', work: (page: Page) => Promise<void>) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    const complaints: string[] = [];
    page.on('console', (message) => void (message.type() === 'error' && complaints.push(message.text())));
    page.on('pageerror', (error) => void complaints.push(error.message));
    await page.goto(at.url + path);
    await work(page);
    for (const event of ['console', 'pageerror'] as const) page.removeAllListeners(event);
    expect(complaints).toEqual([]);
  }

  /** Whether the page shows the element; otherwise scrolls on. Swagger UI renders only the operations near the viewport. */
  async function scrollOn(page: Page, element: Locator): Promise<boolean> {
    if ((await element.count()) > 0) return true;
    await page.mouse.wheel(0, 400);
    return false;
  }

  it('lets a user sign in with a token and try a request', async () => {
    const owner = await at.owner();
    await look('/docs', 1_200, 'light', async (page) => {
      await page.getByRole('button', { name: 'Authorize' }).first().click();
      await page.locator('#auth-bearer-value, .auth-container input').first().fill(owner.token);
      await page.getByRole('button', { name: 'Apply credentials' }).first().click();
      await page.getByRole('button', { name: 'Close' }).first().click();

      const operation = page.locator('#operations-Homes_and_rooms-createHome');
      await expect.poll(() => scrollOn(page, operation)).toBe(true);
      await operation.locator('.opblock-summary-control').click();
      await operation.getByRole('button', { name: 'Execute' }).click();
      await operation.locator('.live-responses-table .response-col_status').getByText('201').waitFor();
    });
    const { body } = await owner.get('/v1/homes');
    expect(body.homes).toHaveLength(2);
  });

  it('lists every operation of the description without horizontal scrolling', async () => {
    const document = (await at.api().get('/openapi.json')).body as { paths: Record<string, Record<string, object>> };
    const operations = Object.values(document.paths).flatMap((item) =>
      Object.keys(item).filter((key) => key !== 'servers'),
    );
    await look('/docs', 1_200, 'dark', async (page) => {
      const seen = new Set<string>();
      const seeMore = async () => {
        const ids = await page
          .locator('.opblock')
          .evaluateAll((blocks: { id: string }[]) => blocks.map(({ id }) => id));
        for (const id of ids) seen.add(id);
        await page.mouse.wheel(0, 400);
        return seen.size;
      };
      await expect.poll(seeMore).toBe(operations.length);
      for (const width of [1_200, 400]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await page.evaluate('document.documentElement.scrollWidth > innerWidth')).toBe(false);
      }
    });
  });

  it.each([
    [400, 'light'],
    [400, 'dark'],
    [1_200, 'light'],
    [1_200, 'dark'],
  ] as const)('describes events in a readable page, %d pixels wide and %s', async (width, scheme) => {
    await look('/docs/events', width, scheme, async (page) => {
      await page.locator('#introduction').waitFor();
      const { least, wide } = await page.evaluate<{ least: number; wide: boolean }>(READABLE);
      expect(wide).toBe(false);
      expect(least).toBeGreaterThan(4.5);
      const operation = page.locator('#operations [id$=-receiveCommandAck]').first();
      await operation.getByText('proto/{tenantId}/device/{deviceId}/cmd_ack').waitFor();
    });
  });

  it('describes every channel, message and schema of the document', async () => {
    const { body } = await at.api().get('/asyncapi.json');
    const { channels, components } = body as {
      channels: Record<string, { address: string }>;
      components: Record<'messages' | 'schemas', Record<string, object>>;
    };
    await look('/docs/events', 1_200, 'light', async (page) => {
      await page.locator('#introduction').waitFor();
      const text = await page.locator('main').innerText();
      for (const { address } of Object.values(channels)) expect(text).toContain(address);
      for (const name of Object.keys(components.messages))
        expect(await page.locator(`#message-${name}`).count()).toBe(1);
      for (const name of Object.keys(components.schemas)) expect(await page.locator(`#schema-${name}`).count()).toBe(1);
    });
  });

  it('links to the other reference, reachable by keyboard', async () => {
    await look('/docs/events', 1_200, 'light', async (page) => {
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content');
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.textContent')).toBe('REST API');
      await page.keyboard.press('Enter');
      await page.waitForURL(`${at.url}/docs`, { waitUntil: 'commit' });
    });
  });
});
