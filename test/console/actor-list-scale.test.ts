import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deviceCommit } from '../support/actor-commits.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { openConsolePage, startConsoleService } from '../support/console-page.ts';
import type { TestService } from '../support/service.ts';

const DEVICES = 3_000;
const ROWS = 30_000;
/** Page size of a mocked response. */
const PAGE = 5_000;

/**
 * Runs in the page: scrolls through the whole list, several screens per frame, and returns the maximum number of rows
 * in the DOM.
 */
const SCROLL_THROUGH = `new Promise((resolve) => {
  const list = document.querySelector('.roll tbody');
  const [steps, whole] = [120, list.scrollHeight - list.clientHeight];
  let [n, most] = [0, 0];
  const next = () => {
    most = Math.max(most, document.querySelectorAll('.roll tr').length);
    list.scrollTop = (whole * n) / steps;
    if (++n <= steps) requestAnimationFrame(next);
    else resolve(most);
  };
  requestAnimationFrame(next);
})`;

const TO_THE_END = `(() => { const list = document.querySelector('.roll tbody'); list.scrollTop = list.scrollHeight; })()`;

describe.runIf(hasChromium())('a long list of actors', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let browser: Browser;

  beforeAll(async () => {
    at = await startConsoleService();
    owner = await at.owner();
    browser = await connectBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await at?.stop();
  });

  const loaded = async (page: Page): Promise<number> =>
    Number((await page.getByText(/^[\d,]+\+? actors$/).textContent())?.replace(/\D/g, ''));

  /** Scrolls to the end until `wanted` rows are loaded. */
  async function loadAll(page: Page, wanted: number): Promise<void> {
    while ((await loaded(page)) < wanted) {
      await page.evaluate(TO_THE_END);
      await page.waitForTimeout(0);
    }
  }

  it(`has ${DEVICES} devices, all of them reachable`, async () => {
    for (let from = 0; from < DEVICES; from += 500) {
      const actors = Array.from({ length: 500 }, (_, n) =>
        deviceCommit({ tenantId: owner.tenantId, columns: { created_at: from + n, online: true } }),
      );
      await at.services.store.actors.commit(actors);
    }
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    await open('/actors?kind=device');
    await loadAll(page, DEVICES);
    await page.getByText(`${DEVICES.toLocaleString('en')} actors`, { exact: true }).waitFor();
    expect(await page.locator('.roll tr').count()).toBeLessThan(200);
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it(`scrolls through ${ROWS} rows with fewer than 200 of them in the document at any time`, async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, {
      token: owner.token,
      fresh: true,
    });
    // Mocked, because creating this many actors would take too long; the list behaves the same.
    await page.route('**/v1/actors?*', (route) => {
      const start = Number(new URL(route.request().url()).searchParams.get('cursor') ?? 0);
      const actors = Array.from({ length: PAGE }, (_, n) => entryOf(start + n));
      const next_cursor = start + PAGE < ROWS ? `${start + PAGE}` : null;
      return route.fulfill({ json: { actors, next_cursor } });
    });
    await open('/actors');
    await loadAll(page, ROWS);
    expect(await page.evaluate(SCROLL_THROUGH)).toBeLessThan(200);
    expect(browserErrors()).toEqual([]);
    await close();
  });
});

const entryOf = (n: number) => ({
  ...{ kind: 'device', id: `0195d9a2-7f00-7000-8000-${`${n}`.padStart(12, '0')}`, name: `Light ${n}` },
  ...{ state: 'administration.active.one_key,link.online', version: 3, since: '2026-03-01T12:00:00.000Z' },
  ...{ live: true, mailbox: 0, quarantined: false },
});
