import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { expect, inject } from 'vitest';
import { buildPages } from '../../scripts/build-pages.ts';
import { keptContexts } from './chromium.ts';
import { freePort } from './programs.ts';
import { startService, type TestService } from './service.ts';

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

/** Port of the consoles of this worker, and the service that uses it. */
let port: number | null = null;
let current: TestService | null = null;
/** A lease that no stall of a busy machine ends, in milliseconds. */
const PATIENT_LOCK = { lease: 120_000, idleSession: 130_000, unreachable: 125_000 };

/**
 * `startService` for a suite that opens its console: the services of a worker have the same URL, one after another, so
 * that the browser has the files of the console in its cache, and its code compiled.
 */
export async function startConsoleService(
  ...[env = {}, options]: Parameters<typeof startService>
): Promise<TestService> {
  // A suite whose hook failed may have left its service running, and this one needs its port.
  await current?.stop().catch(() => {});
  if (port === null) {
    await buildPages('console');
    port = await freePort();
  }
  const limits = { ...options?.limits, lock: PATIENT_LOCK };
  const at = await startService({ PORT: `${port}`, ...env }, { ...options, limits });
  const { stop } = at;
  at.stop = async () => {
    current = null;
    await stop();
  };
  current = at;
  return at;
}

/**
 * Closed pages, without cookies and storage. The next test of the worker reuses one, because a new page needs more than
 * a second for its process and for compiling the console.
 */
const closedPages = new WeakMap<Browser, Page[]>();

async function newPage(browser: Browser): Promise<Page> {
  const context = await browser.newContext({
    ...{ timezoneId: 'Europe/Berlin', locale: 'en-GB', reducedMotion: 'reduce' },
  });
  return context.newPage();
}

/** Events that tests listen to; the page has its own listeners. */
const LISTENED = ['console', 'pageerror', 'request', 'response', 'dialog'] as const;

/** Removes the state of a test, except the HTTP cache. */
async function clear(page: Page): Promise<void> {
  for (const event of LISTENED) page.removeAllListeners(event);
  // A page with routes does not use the HTTP cache.
  await page.unrouteAll({ behavior: 'ignoreErrors' });
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
  keptContexts.delete(context);
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
      keptContexts.add(context);
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

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** The rules of `TAGS` whose result depends on the colours. */
const COLOUR_RULES = ['color-contrast', 'link-in-text-block'];

/**
 * Violations of WCAG 2.2 A and AA and of best practices that axe finds: in the open dialog, if there is one, because the rest
 * of the page is inert, otherwise in the page.
 */
export const accessibility = (page: Page): Promise<string[]> => violations(page, TAGS);

async function violations(page: Page, runOnly: readonly string[]): Promise<string[]> {
  const run = `'axe' in window && axe.run(document.querySelector('dialog:modal') ?? document, {
    runOnly: ${JSON.stringify(runOnly)}, resultTypes: ['violations'],
  }).then(({ violations }) => violations)`;
  // The page's content security policy blocks other scripts; evaluation through the debugger is exempt from it.
  const found = ((await page.evaluate(run)) ||
    (await page.evaluate(axe).then(() => page.evaluate(run)))) as Violation[];
  return found.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${help} at ${target.join(' ')}: ${failureSummary}`),
  );
}

export interface Layout {
  /** Of the page, in CSS pixels. */
  width: number;
  colorScheme: 'light' | 'dark';
}

/** The console has one layout up to this width, for which axe runs once. */
const SMALL_PX = 480;

const DESKTOP_AND_PHONE: readonly Layout[] = [
  { width: 1_440, colorScheme: 'light' },
  { width: 400, colorScheme: 'dark' },
];

/** A small screen in each of the colours. */
export const PHONES: readonly Layout[] = [
  { width: 400, colorScheme: 'light' },
  { width: 400, colorScheme: 'dark' },
];

/**
 * What is wrong with the open page in some layouts: violations as of `accessibility`, content that is wider than the
 * screen, and content that is cut or covers other content. It changes the layout of the open page, which takes a small
 * part of the time of opening it in each layout; the page keeps the last one.
 */
export async function layoutProblems(page: Page, layouts: readonly Layout[] = DESKTOP_AND_PHONE): Promise<string[]> {
  const problems: string[] = [];
  const checked = new Map<number, Set<Layout['colorScheme']>>();
  for (const { width, colorScheme } of layouts) {
    await page.setViewportSize({ width, height: page.viewportSize()?.height ?? 860 });
    await page.emulateMedia({ colorScheme });
    const found: string[] = await misplacedContent(page);
    if (await overflowsHorizontally(page)) found.push('wider than the screen');
    const colours = checked.get(Math.max(width, SMALL_PX));
    if (!colours?.has(colorScheme)) found.push(...(await violations(page, colours ? COLOUR_RULES : TAGS)));
    checked.set(Math.max(width, SMALL_PX), new Set([...(colours ?? []), colorScheme]));
    problems.push(...found.map((what) => `${width} px, ${colorScheme}: ${what}`));
  }
  return problems;
}

/** Status labels that their table cell cuts, and elements of a limited height whose content covers what follows them. */
const misplacedContent = (page: Page): Promise<string[]> =>
  page.evaluate(`(() => {
    const found = [];
    for (const pill of document.querySelectorAll(':is(td, th) .pill')) {
      const [inner, outer] = [pill, pill.closest('td, th')].map((one) => one.getBoundingClientRect());
      const isVisible = inner.width > 0 && inner.top < outer.bottom && inner.bottom > outer.top;
      if (isVisible && (inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1)) {
        const scroller = pill.closest('.scroll');
        if (scroller === null) found.push('cut: ' + pill.textContent);
      }
    }
    for (const one of document.querySelectorAll('main *')) {
      const { display, overflowY } = getComputedStyle(one);
      if (display === 'inline' || overflowY !== 'visible' || one.clientHeight === 0 || one.closest('svg')) continue;
      if (one.scrollHeight > one.clientHeight + 3) found.push('covers others: ' + one.tagName + '.' + one.className);
    }
    return found;
  })()`);

/** True if the page is wider than the screen. */
export const overflowsHorizontally = (page: Page): Promise<boolean> =>
  page.evaluate('document.documentElement.scrollWidth > innerWidth');

const PICTURES = new URL('../../docs/console/', import.meta.url);

/** Saves a picture for the documents, but only if `CONSOLE_PICTURES=1`; otherwise the files stay unchanged. */
export async function saveScreenshot(page: Page, name: string): Promise<void> {
  if (process.env.CONSOLE_PICTURES !== '1') return;
  await page.screenshot({ path: new URL(`${name}.png`, PICTURES).pathname, animations: 'disabled' });
}
