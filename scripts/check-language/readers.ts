import { extname } from 'node:path';
import { readJson } from './json.ts';
import { markdownReader } from './markdown.ts';
import type { Reader } from './passage.ts';
import {
  readC,
  readCss,
  readHtml,
  readProto,
  readPython,
  readShell,
  readSql,
  readTemplate,
  readText,
  readYaml,
} from './tokens.ts';
import { readTypeScript } from './typescript.ts';

const code: readonly [string, Reader][] = [
  ['ts', readTypeScript],
  ['tsx', readTypeScript],
  ['js', readTypeScript],
  ['mjs', readTypeScript],
  ['cjs', readTypeScript],
  ['sh', readShell],
  ['Dockerfile', readShell],
  ['service', readShell],
  ['.gitignore', readShell],
  ['.dockerignore', readShell],
  ['.npmrc', readShell],
  ['python', readPython],
  ['py', readPython],
  ['yaml', readYaml],
  ['yml', readYaml],
  ['cfg', readYaml],
  ['conf', readYaml],
  ['tpl', readTemplate],
  ['txt', readText],
  ['defaults', readShell],
  ['css', readCss],
  ['proto', readProto],
  ['c', readC],
  ['h', readC],
  ['sql', readSql],
  ['html', readHtml],
  ['svg', readHtml],
];

const readers = new Map<string, Reader>([...code, ['json', readJson], ['md', markdownReader(new Map(code))]]);

/** The key of a file in the table: its extension, `sh` for a shell script without one, otherwise its name. */
const kindOf = (file: string, source: string): string =>
  extname(file).slice(1) || (/^#!.*\b(?:ba)?sh\n/.test(source) ? 'sh' : file.slice(file.lastIndexOf('/') + 1));

export const readerFor = (file: string, source: string): Reader | undefined => readers.get(kindOf(file, source));
