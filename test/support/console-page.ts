import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { expect, inject } from 'vitest';
import { buildPages } from '../../scripts/build-pages.ts';
import { launchChromium } from './chromium.ts';
import type { TestService } from './service.ts';

/** A browser at the console of a service, with the errors it reported. */
export interface ConsolePage {
  page: Page;
  context: BrowserContext;
  /** Errors that the browser reported since the last call, without responses that the test expects. */
  browserErrors(): string[];
  /** Opens a path of the console, such as `/actors`, and waits until it is rendered. */
  open(path: string): Promise<void>;
  close(): Promise<void>;
}

export interface ConsolePageOptions {
  token?: string;
  width?: number;
  height?: number;
  colorScheme?: 'light' | 'dark';
  /** Statuses of responses that the test causes: a browser reports each of them as an error. */
  expects?: readonly number[];
  /**
   * A page that is never shared: for a test that depends on an empty cache, or changes state that persists with a page
   * (its clock, its requests, a debugger session).
   */
  fresh?: boolean;
}

/** Builds the console from the working tree and starts a browser. */
export async function launchConsoleBrowser(): Promise<Browser> {
  await buildPages('console');
  return launchChromium();
}

/**
 * Closed pages, without cookies and storage. The next test of the same browser reuses one, because a new page needs
 * more than a second for its process and for compiling the console.
 */
const closedPages = new WeakMap<Browser, Page[]>();

async function newPage(browser: Browser): Promise<Page> {
  const context = await browser.newContext({
    ...{ timezoneId: 'Europe/Berlin', locale: 'en-GB', reducedMotion: 'reduce' },
  });
  return context.newPage();
}

/** Events that tests listen to; the page has its own listeners. */
const LISTENED = ['console', 'pageerror', 'response', 'dialog'] as const;

/** Removes the state of a test, except the HTTP cache. */
async function clear(page: Page): Promise<void> {
  for (const event of LISTENED) page.removeAllListeners(event);
  await page.evaluate("if (location.origin !== 'null') { localStorage.clear(); sessionStorage.clear(); }");
  // A navigation from within the page keeps its process.
  await page.evaluate("location.replace('about:blank')");
  await page.waitForURL('about:blank');
  await page.context().clearCookies();
}

/** A new window, signed in if there is a token. */
export async function openConsolePage(
  browser: Browser,
  at: TestService,
  options: ConsolePageOptions = {},
): Promise<ConsolePage> {
  const { token, width = 1_280, height = 860, colorScheme = 'light', fresh = false } = options;
  const closed = closedPages.get(browser) ?? [];
  closedPages.set(browser, closed);
  const page = (!fresh && closed.pop()) || (await newPage(browser));
  const context = page.context();
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme });
  page.setDefaultTimeout(inject('pollMs'));
  const errors: string[] = [];
  const expected = [401, ...(options.expects ?? [])].map((status) => `status of ${status} `);
  page.on('console', (message) => {
    const unexpected = message.type() === 'error' && !expected.some((status) => message.text().includes(status));
    if (unexpected) errors.push(message.text());
  });
  page.on('pageerror', (error) => errors.push(`${error}`));
  if (token !== undefined) {
    const opened = await context.request.post(`${at.url}/v1/auth/session`, { data: { token } });
    expect(opened.status()).toBe(204);
  }
  return {
    page,
    context,
    browserErrors: () => errors.splice(0),
    async open(path) {
      await page.goto(`${at.url}/console${path}`);
      await page.getByRole('heading', { level: 1 }).first().waitFor();
    },
    async close() {
      if (fresh) return context.close();
      await clear(page);
      closed.push(page);
    },
  };
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  id: string;
  help: string;
  nodes: { target: string[]; failureSummary: string }[];
}

/** Violations of WCAG 2.2 A and AA and of best practices that axe finds. */
export async function accessibility(page: Page): Promise<string[]> {
  // The page's content security policy blocks other scripts; evaluation through the debugger is exempt from it.
  if (!(await page.evaluate(`'axe' in window`))) await page.evaluate(axe);
  const found = (await page.evaluate(
    `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations'] }).then(({ violations }) => violations)`,
  )) as Violation[];
  return found.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${help} at ${target.join(' ')}: ${failureSummary}`),
  );
}

/** True if the page is wider than the screen. */
export const overflowsHorizontally = (page: Page): Promise<boolean> =>
  page.evaluate('document.documentElement.scrollWidth > innerWidth');

const PICTURES = new URL('../../docs/console/', import.meta.url);

/** Saves a picture for the documents, but only if `CONSOLE_PICTURES=1`; otherwise the files stay unchanged. */
export async function saveScreenshot(page: Page, name: string): Promise<void> {
  if (process.env.CONSOLE_PICTURES !== '1') return;
  await page.screenshot({ path: new URL(`${name}.png`, PICTURES).pathname, animations: 'disabled' });
}
