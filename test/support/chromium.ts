import { type Browser, type BrowserContext, chromium } from 'playwright-core';
import { inject } from 'vitest';

const ARGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
  // Pages are open for seconds, so optimizing their code costs more than it saves.
  '--js-flags=--no-opt',
];

/** True if a browser is available; with `REQUIRE_SERVERS=1` a run without one has failed before. */
export const hasChromium = (): boolean => inject('programs').chromium !== null;

/** The browser of this worker; it ends with its worker. */
let shared: Promise<Browser> | null = null;
/** Contexts that stay open for the next suites when a suite closes the browser. */
export const keptContexts = new WeakSet<BrowserContext>();

/**
 * The browser that all suites of this worker share, launched for the first of them: each new browser needs seconds to
 * start and compiles the pages again. Closing it closes the contexts that a suite left open.
 */
export async function connectBrowser(): Promise<Browser> {
  const previous = await shared?.catch(() => null);
  if (!previous?.isConnected()) shared = launch();
  return shared as Promise<Browser>;
}

async function launch(): Promise<Browser> {
  const executablePath = inject('programs').chromium;
  if (executablePath === null) throw new Error('chromium is not installed');
  const browser = await chromium.launch({ executablePath, args: ARGS });
  browser.close = async () => {
    const left = browser.contexts().filter((context) => !keptContexts.has(context));
    await Promise.all(left.map((context) => context.close()));
  };
  return browser;
}
