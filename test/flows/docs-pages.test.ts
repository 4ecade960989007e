import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
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

/** Runs in the page: the highest mean of red, green and blue of its backgrounds, from 0 to 1. */
const BRIGHTEST = `Math.max(...[document.body, ...document.querySelectorAll('main, main div')].map((element) => {
  const [r, g, b, alpha = 1] = getComputedStyle(element).backgroundColor.match(/[\\d.]+/g).map(Number);
  return alpha === 0 ? 0 : (r + g + b) / 765;
}))`;

/**
 * Runs in the page: scrolls on by less than the height of the page, from its end to its start again. Then waits until
 * the page was drawn, so that a slow machine skips nothing: Swagger UI renders only the operations near the viewport.
 */
const SCROLL_ON = `new Promise((drawn) => {
  const { scrollTop, scrollHeight } = document.documentElement;
  const isEnd = scrollTop + innerHeight >= scrollHeight - 1;
  scrollTo({ top: isEnd ? 0 : scrollTop + 600, behavior: 'instant' });
  requestAnimationFrame(() => requestAnimationFrame(() => drawn()));
})`;

describe.runIf(hasChromium())('the API reference, in a browser', () => {
  let at: TestService;
  let browser: Browser;
  let page: Page;
  /** The browser's errors, such as a refused script or a missing file. */
  const complaints: string[] = [];

  beforeAll(async () => {
    at = await startService();
    browser = await connectBrowser();
    page = await browser.newPage();
    page.setDefaultTimeout(inject('pollMs'));
    page.on('console', (message) => void (message.type() === 'error' && complaints.push(message.text())));
    page.on('pageerror', (error) => void complaints.push(error.message));
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });
  afterEach(() => expect(complaints.splice(0)).toEqual([]));

  async function show(width: number, colorScheme: 'light' | 'dark'): Promise<void> {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
  }

  describe('of the REST API', () => {
    /** Swagger UI takes seconds to render the description, so both tests use the same page. */
    beforeAll(async () => {
      await show(1_200, 'dark');
      await page.goto(`${at.url}/docs`);
      await page.getByRole('button', { name: 'Authorize' }).first().waitFor();
    });

    it('lists every operation of the description without horizontal scrolling', async () => {
      const document = (await at.api().get('/openapi.json')).body as { paths: Record<string, Record<string, object>> };
      const operations = Object.values(document.paths).flatMap((item) =>
        Object.keys(item).filter((key) => key !== 'servers'),
      );
      const seen = new Set<string>();
      const seeMore = async () => {
        const ids = await page
          .locator('.opblock')
          .evaluateAll((blocks: { id: string }[]) => blocks.map(({ id }) => id));
        for (const id of ids) seen.add(id);
        await page.evaluate(SCROLL_ON);
        return seen.size;
      };
      await expect.poll(seeMore, { interval: 0 }).toBe(operations.length);
      for (const width of [1_200, 400]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await page.evaluate('document.documentElement.scrollWidth > innerWidth')).toBe(false);
      }
    });

    it('lets a user sign in with a token and try a request', async () => {
      const owner = await at.owner();
      await show(1_200, 'light');
      await page.getByRole('button', { name: 'Authorize' }).first().click();
      await page.locator('#auth-bearer-value, .auth-container input').first().fill(owner.token);
      await page.getByRole('button', { name: 'Apply credentials' }).first().click();
      await page.getByRole('button', { name: 'Close' }).first().click();

      const operation = page.locator('#operations-Homes_and_rooms-createHome');
      const isRendered = async () => {
        if ((await operation.count()) > 0) return true;
        await page.evaluate(SCROLL_ON);
        return false;
      };
      await expect.poll(isRendered, { interval: 0 }).toBe(true);
      await operation.locator('.opblock-summary-control').click();
      await operation.getByRole('button', { name: 'Execute' }).click();
      await operation.locator('.live-responses-table .response-col_status').getByText('201').waitFor();
      const { body } = await owner.get('/v1/homes');
      expect(body.homes).toHaveLength(2);
    });
  });

  describe('of the events', () => {
    /** All tests use the same page, because it takes seconds to render. */
    beforeAll(async () => {
      await show(1_200, 'light');
      await page.goto(`${at.url}/docs/events`);
      await page.locator('#introduction').waitFor();
    });

    it.each([
      [400, 'light'],
      [400, 'dark'],
      [1_200, 'light'],
      [1_200, 'dark'],
    ] as const)('is a readable page, %d pixels wide and %s', async (width, scheme) => {
      await show(width, scheme);
      const { least, wide } = await page.evaluate<{ least: number; wide: boolean }>(READABLE);
      expect(wide).toBe(false);
      expect(least).toBeGreaterThan(4.5);
      const brightest = await page.evaluate<number>(BRIGHTEST);
      // The labels with white text have the same colors in both.
      if (scheme === 'dark') expect(brightest).toBeLessThan(0.5);
      else expect(brightest).toBeGreaterThan(0.8);
      const operation = page.locator('#operations [id$=-receiveCommandAck]').first();
      await operation.getByText('proto/{tenantId}/device/{deviceId}/cmd_ack').waitFor();
    });

    it('describes every channel, message and schema of the document', async () => {
      const { body } = await at.api().get('/asyncapi.json');
      const { channels, components } = body as {
        channels: Record<string, { address: string }>;
        components: Record<'messages' | 'schemas', Record<string, object>>;
      };
      const text = await page.locator('main').innerText();
      for (const { address } of Object.values(channels)) expect(text).toContain(address);
      const ids = new Set<string>(
        await page.locator('[id]').evaluateAll((found: { id: string }[]) => found.map(({ id }) => id)),
      );
      for (const name of Object.keys(components.messages)) expect(ids).toContain(`message-${name}`);
      for (const name of Object.keys(components.schemas)) expect(ids).toContain(`schema-${name}`);
    });

    it('links to the other reference, reachable by keyboard', async () => {
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content');
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.textContent')).toBe('Console');
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.textContent')).toBe('REST API');
      await page.keyboard.press('Enter');
      await page.waitForURL(`${at.url}/docs`, { waitUntil: 'commit' });
    });
  });
});
