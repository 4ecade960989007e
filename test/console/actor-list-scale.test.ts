import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commandCommit, deviceCommit } from '../support/actor-commits.ts';
import { connectBrowser, hasChromium } from '../support/chromium.ts';
import { openConsolePage, startConsoleService } from '../support/console-page.ts';
import { register } from '../support/device.ts';
import type { TestService } from '../support/service.ts';

const DEVICES = 3_000;
const ROWS = 30_000;
/** More than two pages. */
const COMMANDS = 450;
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

/** Runs in the page: records the number of loaded rows at each change, as `window.counts`. */
const RECORD_COUNTS = `(() => {
  window.counts = [];
  const status = document.querySelector('.filters [role=status]');
  new MutationObserver(() => window.counts.push(status.textContent)).observe(status, {
    subtree: true, childList: true, characterData: true,
  });
})()`;

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
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
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

  it('keeps all rows of a sorted list of commands, and shows new commands and changes in it', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    const { device_id } = await register(owner, { name: 'Lamp', device_type: 'smart_light' });
    const request = async (action: string): Promise<string> =>
      (await owner.post(`/v1/device/${device_id}/command`, { action, params: {} })).body.command_id;
    const oldest = await request('turn_on');
    const now = Date.now();
    const commits = Array.from({ length: COMMANDS }, () =>
      commandCommit({ tenantId: owner.tenantId, columns: { created_at: now } }),
    );
    for (let from = 0; from < COMMANDS; from += 100)
      await at.services.store.actors.commit(commits.slice(from, from + 100));
    await open('/actors?kind=command&sort=-command');
    const table = page.getByRole('table', { name: 'Commands' });
    const rowsOf = (count: number) => page.getByText(`${count} actors`, { exact: true });
    await rowsOf(COMMANDS + 1).waitFor();
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    await page.evaluate(RECORD_COUNTS);
    await request('turn_off');
    await rowsOf(COMMANDS + 2).waitFor();
    // The rows after the first page were never removed.
    const counts = (await page.evaluate('window.counts')) as string[];
    expect([...new Set(counts)]).toEqual([`${COMMANDS + 2} actors`]);
    await owner.post(`/v1/commands/${oldest}/cancel`, {});
    await page.getByLabel('Search by name or ID').fill(oldest);
    await table.getByRole('row').getByText('cancelled').waitFor();
    expect(browserErrors()).toEqual([]);
    await close();
  });

  it('removes a command that leaves the filtered state at once', async () => {
    const { page, open, browserErrors, close } = await openConsolePage(browser, at, { token: owner.token });
    const { device_id } = await register(owner, { name: 'Other lamp', device_type: 'smart_light' });
    const { command_id } = (await owner.post(`/v1/device/${device_id}/command`, { action: 'turn_on', params: {} }))
      .body;
    await open('/actors?kind=command&state=lifecycle.queued');
    const row = page.getByRole('row').filter({ hasText: command_id.slice(-8) });
    await row.waitFor();
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    // Only the stream can remove it now.
    await page.route('**/v1/actors?*', () => {});
    await owner.post(`/v1/commands/${command_id}/cancel`, {});
    await row.waitFor({ state: 'detached' });
    expect(browserErrors()).toEqual([]);
    await close();
  });
});

const entryOf = (n: number) => ({
  ...{ kind: 'device', id: `0195d9a2-7f00-7000-8000-${`${n}`.padStart(12, '0')}`, name: `Light ${n}` },
  ...{ state: 'administration.active.one_key,link.online', version: 3, since: '2026-03-01T12:00:00.000Z' },
  ...{ live: true, mailbox: 0, quarantined: false },
});
