import { type Browser, chromium } from 'playwright-core';
import { inject } from 'vitest';

const ARGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
];

/** True if a browser is available; with `REQUIRE_SERVERS=1` a run without one has failed before. */
export const hasChromium = (): boolean => inject('programs').chromium !== null;

export function launchChromium(): Promise<Browser> {
  const executablePath = inject('programs').chromium;
  if (executablePath === null) throw new Error('chromium is not installed');
  return chromium.launch({ executablePath, args: ARGS });
}
