import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { expect, inject } from 'vitest';
import { buildConsole } from '../../scripts/build-console.ts';
import { launchChromium } from './chromium.ts';
import type { TestService } from './service.ts';

/** A browser at the console of a service, and what it complained of. */
export interface ConsolePage {
  page: Page;
  context: BrowserContext;
  /** Errors that the browser told since the last look, without refusals that a test expects. */
  browserErrors(): string[];
  /** Goes to a path of the console, as `/actors`, and waits until it is drawn. */
  open(path: string): Promise<void>;
  close(): Promise<void>;
}

export interface ConsolePageOptions {
  token?: string;
  width?: number;
  height?: number;
  colorScheme?: 'light' | 'dark';
  /** Statuses whose answers the test provokes: a browser calls each of them an error. */
  expects?: readonly number[];
  /**
   * A page that nothing else has used or will use: for a test that depends on an empty cache, or changes what stays with
   * a page (its clock, its requests, a debugger's session).
   */
  fresh?: boolean;
}

/** The console built of what is checked out, and a browser to look at it. */
export async function launchConsoleBrowser(): Promise<Browser> {
  await buildConsole();
  return launchChromium();
}

/**
 * Pages that were closed, without cookies and storage: the next test of the same browser takes one, because a new page
 * costs more than a second for its process and for compiling the console again.
 */
const closedPages = new WeakMap<Browser, Page[]>();

async function newPage(browser: Browser): Promise<Page> {
  const context = await browser.newContext({
    ...{ timezoneId: 'Europe/Berlin', locale: 'en-GB', reducedMotion: 'reduce' },
  });
  return context.newPage();
}

/** What tests listen to; the page has listeners of its own. */
const LISTENED = ['console', 'pageerror', 'response', 'dialog'] as const;

/** Leaves nothing of one test to the next, apart from the HTTP cache. */
async function clear(page: Page): Promise<void> {
  for (const event of LISTENED) page.removeAllListeners(event);
  await page.evaluate("if (location.origin !== 'null') { localStorage.clear(); sessionStorage.clear(); }");
  // Navigated to from within, it keeps its process.
  await page.evaluate("location.replace('about:blank')");
  await page.waitForURL('about:blank');
  await page.context().clearCookies();
}

/** A window of its own, signed in where there is a token. */
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
  const told: string[] = [];
  const expected = [401, ...(options.expects ?? [])].map((status) => `status of ${status} `);
  page.on('console', (message) => {
    const ours = message.type() === 'error' && !expected.some((status) => message.text().includes(status));
    if (ours) told.push(message.text());
  });
  page.on('pageerror', (error) => told.push(`${error}`));
  if (token !== undefined) {
    const opened = await context.request.post(`${at.url}/v1/auth/session`, { data: { token } });
    expect(opened.status()).toBe(204);
  }
  return {
    page,
    context,
    browserErrors: () => told.splice(0),
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

/** What axe finds against WCAG 2.2 A and AA, and its best practices. */
export async function accessibility(page: Page): Promise<string[]> {
  // The page's own policy lets in no script of ours; what is evaluated through the debugger is none of the page's.
  if (!(await page.evaluate(`'axe' in window`))) await page.evaluate(axe);
  const found = (await page.evaluate(
    `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], resultTypes: ['violations'] }).then(({ violations }) => violations)`,
  )) as Violation[];
  return found.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${help} at ${target.join(' ')}: ${failureSummary}`),
  );
}

/** Whether the page is wider than the screen, so that it would have to be pushed to and fro. */
export const overflowsHorizontally = (page: Page): Promise<boolean> =>
  page.evaluate('document.documentElement.scrollWidth > innerWidth');

const PICTURES = new URL('../../docs/console/', import.meta.url);

/** A picture for the documents, only where they are to be made anew: what is checked in stays as it is else. */
export async function saveScreenshot(page: Page, name: string): Promise<void> {
  if (process.env.CONSOLE_PICTURES !== '1') return;
  await page.screenshot({ path: new URL(`${name}.png`, PICTURES).pathname, animations: 'disabled' });
}
