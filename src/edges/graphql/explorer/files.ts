import type { Content } from '../../shared/exchange.ts';
import { PAGE } from './page.ts';
import { SCRIPT } from './script.ts';
import { STYLE } from './style.ts';

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const files: Readonly<Record<string, Content>> = {
  '': { type: 'text/html; charset=utf-8', body: PAGE, policy: POLICY },
  '/explorer.js': { type: 'text/javascript; charset=utf-8', body: SCRIPT },
  '/explorer.css': { type: 'text/css; charset=utf-8', body: STYLE },
};

/** The explorer's page or one of its files, by the path below the endpoint; null for an unknown path. */
export const explorerFile = (path: string): Content | null =>
  Object.hasOwn(files, path) ? (files[path] ?? null) : null;
