// How long does the console take to draw 100,000 points of a history?

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { build } from 'vite';
import { findPrograms } from '../../test/support/programs.ts';
import { checkLimit, formatLatencies, percentile } from '../support/figures.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';

/*
 * The console's plot in Chromium without a GPU, 1,200 by 300 pixels: the time from new data until the pixels of the canvas are
 * there, with the gaps, the bands and the points without neighbours. A chart shows eight lines, of an answer each: up to 10,000
 * samples, or by default 1,000 intervals.
 */

const AT_MOST_MS = 100;
/** As of the console (src/edges/console/routes.ts). */
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:";
const TYPES: Readonly<Record<string, string>> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };

const options = readOptions();
const tries = options.short ? 2 : 30;
printMachine();
const executablePath = findPrograms().chromium;
if (executablePath === null) throw new Error('chromium is not installed');
const folder = mkdtempSync(join(tmpdir(), 'twinkeep-charts-'));
await build({
  root: fileURLToPath(new URL('./page', import.meta.url)),
  base: './',
  logLevel: 'warn',
  build: { outDir: folder, emptyOutDir: true, target: 'es2023', modulePreload: { polyfill: false } },
});
const server = createServer(({ url = '/' }, response) => {
  const path = url === '/' ? '/index.html' : url;
  response.setHeader('content-security-policy', POLICY);
  response.setHeader('content-type', TYPES[extname(path)] ?? 'text/plain');
  try {
    response.end(readFileSync(join(folder, path)));
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
try {
  const page = await browser.newPage({ viewport: { width: 1_280, height: 800 } });
  page.on('console', (message) => message.type() === 'error' && console.error(message.text()));
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  for (const [what, lines, points, step] of [
    ['one line of 100,000 samples', 1, 100_000, 0],
    ['eight lines of 12,500 samples', 8, 12_500, 0],
    ['eight lines of 1,000 intervals with bands', 8, 1_000, 60_000],
  ] as const) {
    const times = (await page.evaluate(`measure(${JSON.stringify({ lines, step, points, tries })})`)) as number[];
    console.log(`${what}: ${formatLatencies(times)}`);
    checkLimit(`  p50 of ${what}`, percentile(times, 50), { atMost: AT_MOST_MS, unit: 'ms', short: options.short });
  }
} finally {
  await browser.close();
  server.close();
  rmSync(folder, { recursive: true, force: true });
}
