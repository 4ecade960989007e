/**
 * Counts literary constructions in what people read: at most 2 per 1,000 words of prose (comments, paragraphs of
 * documents) in each folder or document, none in texts that a program or page shows (log lines, errors, descriptions,
 * interface text, titles of tests). Markers of an unresolved merge are refused too. `--list UNIT` prints the findings of a folder or document, `--list all` those of all.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { findingsIn, wordsIn } from './check-language/constructions.ts';
import { readerFor } from './check-language/readers.ts';

const PER_THOUSAND_WORDS = 2;

/** Every file in a folder belongs to one of these; files in the project's folder belong to `.`. */
const folders = [
  'src/actors',
  'src/cli',
  'src/config',
  'src/device',
  'src/domain',
  'src/edges/cluster',
  'src/edges/console',
  'src/edges/graphql',
  'src/edges/grpc',
  'src/edges/mcp',
  'src/edges/mqtt',
  'src/edges/rest',
  'src/edges/shared',
  'src/edges/websocket',
  'src/machines',
  'src/main',
  'src/operations',
  'src/protocol',
  'src/services',
  'src/store',
  'console',
  'reference',
  'sidecar',
  'bench',
  'scripts',
  'test',
  '.ci',
  'deploy',
  'docs',
  'proto',
  'packages',
  'devices',
];

/** Files that are not read, by the start of their path. */
const excluded = [
  'LICENSE', // the text of the Apache License
  'packages/device/LICENSE', // the same
  'package-lock.json', // written by npm
  'proto/gen/', // generated from the comments of the .proto, which are checked
  'docs/schema.graphql', // generated from descriptions in src, which are checked
  'docs/machines/', // generated from descriptions in src/machines, which are checked, and from names of code
  'bench/results/', // recorded output of programs
  '.nvmrc', // a version
];
const withoutText = /\.(?:png|binpb|br|crt|key)$/;

interface Count {
  words: number;
  inProse: string[];
  inTexts: string[];
}

/** Each document is a separate unit: it is read alone, and the total of a folder would hide a bad one. */
function unitOf(file: string): string | undefined {
  if (file.endsWith('.md')) return file;
  if (!file.includes('/')) return '.';
  return folders.find((folder) => file.startsWith(`${folder}/`) || file === `${folder}.ts`);
}

const counts = new Map<string, Count>();
const problems: string[] = [];

function check(file: string): void {
  const unit = unitOf(file);
  const source = readFileSync(file, 'utf8');
  if (/^(?:<{7}|>{7}) /m.test(source)) problems.push(`${file}: has the markers of an unresolved merge`);
  const read = readerFor(file, source);
  if (unit === undefined) problems.push(`${file}: its folder is not in the list of this script`);
  if (read === undefined) problems.push(`${file}: check-language/readers.ts has no reader for this kind of file`);
  if (unit === undefined || read === undefined) return;
  const count = counts.get(unit) ?? { words: 0, inProse: [], inTexts: [] };
  counts.set(unit, count);
  for (const passage of read(source, file)) {
    if (passage.kind === 'prose') count.words += wordsIn(passage.text);
    for (const { kind, line, match, text } of findingsIn(passage)) {
      const findings = kind === 'prose' ? count.inProse : count.inTexts;
      findings.push(`  ${file}:${line} ${match}: ${text.replace(/\s+/g, ' ').trim()}`);
    }
  }
}

const { values } = parseArgs({ options: { list: { type: 'string' } } });
const files = execFileSync('git', ['ls-files', '-z'], { encoding: 'utf8' }).split('\0').slice(0, -1);
for (const file of files) if (!withoutText.test(file) && !excluded.some((start) => file.startsWith(start))) check(file);
for (const [unit, { words, inProse, inTexts }] of counts) {
  const most = Math.ceil((words * PER_THOUSAND_WORDS) / 1_000);
  const summary = `${unit}: ${inProse.length} in ${words} words of prose (at most ${most}), ${inTexts.length} in texts`;
  if (inProse.length > most || inTexts.length > 0) problems.push(summary);
  if (values.list === unit || values.list === 'all') console.log([summary, ...inProse, ...inTexts].join('\n'));
}
for (const problem of problems) console.log(problem);
if (problems.length > 0) process.exitCode = 1;
