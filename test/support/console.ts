import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { expect } from 'vitest';
import { buildConsole } from '../../scripts/build-console.ts';
import { launchChromium } from './chromium.ts';
import type { TestService } from './service.ts';

/** A browser at the console of a service, and what it complained of. */
export interface Onlooker {
  page: Page;
  context: BrowserContext;
  /** Errors that the browser told since the last look, without refusals that a test expects. */
  complaints(): string[];
  /** Goes to a path of the console, as `/actors`, and waits until it is drawn. */
  go(path: string): Promise<void>;
  close(): Promise<void>;
}

export interface LookOptions {
  token?: string;
  width?: number;
  height?: number;
  colorScheme?: 'light' | 'dark';
  timezoneId?: string;
  /** Statuses whose answers the test provokes: a browser calls each of them an error. */
  expects?: readonly number[];
}

/** The console built of what is checked out, and a browser to look at it. */
export async function openConsole(): Promise<Browser> {
  await buildConsole();
  return launchChromium();
}

/** A window of its own, signed in where there is a token. */
export async function look(browser: Browser, at: TestService, options: LookOptions = {}): Promise<Onlooker> {
  const { token, width = 1_280, height = 860, colorScheme = 'light', timezoneId = 'Europe/Berlin' } = options;
  const context = await browser.newContext({
    ...{ colorScheme, timezoneId, locale: 'en-GB', viewport: { width, height }, reducedMotion: 'reduce' },
  });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
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
    complaints: () => told.splice(0),
    async go(path) {
      await page.goto(`${at.url}/console${path}`);
      await page.getByRole('heading', { level: 1 }).first().waitFor();
    },
    close: () => context.close(),
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
  await page.evaluate(axe);
  const found = (await page.evaluate(
    `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then(({ violations }) => violations)`,
  )) as Violation[];
  return found.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${help} at ${target.join(' ')}: ${failureSummary}`),
  );
}

/** Whether the page is wider than the screen, so that it would have to be pushed to and fro. */
export const isTooWide = (page: Page): Promise<boolean> =>
  page.evaluate('document.documentElement.scrollWidth > innerWidth');

const PICTURES = new URL('../../docs/console/', import.meta.url);

/** A picture for the documents, only where they are to be made anew: what is checked in stays as it is else. */
export async function picture(page: Page, name: string): Promise<void> {
  if (process.env.CONSOLE_PICTURES !== '1') return;
  await page.screenshot({ path: new URL(`${name}.png`, PICTURES).pathname, animations: 'disabled' });
}
