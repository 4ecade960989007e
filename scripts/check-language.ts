/**
 * Counts literary constructions, for which a reader has to look twice, in comments and in the texts that the program writes: at most two in a
 * thousand words of comments in each folder, none in log lines, error messages and descriptions. `--list FOLDER` prints
 * what is counted there.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import ts from 'typescript';

const PER_THOUSAND_WORDS = 2;

/** Folders that are checked; the first prefix that fits a file is its folder. */
const folders = [
  'src/actors',
  'src/cli',
  'src/config',
  'src/device',
  'src/domain',
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
  'sidecar',
  'bench',
  'scripts',
  'test',
];

const constructions: readonly RegExp[] = [
  /\bwho(?:ever|m|mever)\b/gi,
  /\b(?:no|some|any)body\b/gi,
  /\b(?:is|are|was|were) no (?!longer\b|more\b|later\b|earlier\b|less\b|fewer\b)\w+/gi,
  /\bof (?:ours|its own|their own|one’s own)\b/gi,
  /\b(?:tell|tells|telling|told|hear|hears|hearing|heard|say|says|saying|said|ask|asks|asking|asked|words?)\b/gi,
  /\b(?:anew|any more|as ever|meanwhile|beside|of which)\b/gi,
  /(?:^|[.:;!?] )(?:What|Who|Whatever)\b(?![^.!?]*\?)/g,
];

interface Finding {
  file: string;
  line: number;
  text: string;
}

interface Count {
  words: number;
  inComments: Finding[];
  inTexts: Finding[];
}

/** A text that a person reads: three words or more, and not SQL. */
const isProse = (text: string): boolean =>
  /\p{L}+ +\p{L}+ +\p{L}+/u.test(text) &&
  !/^\s*(?:(?:select|insert|update|delete|with|create|alter|drop|set|lock)\b|--)/i.test(text);

const textOf = (comment: string): string =>
  comment
    .replace(/^\/\*+|\*\/$/g, '')
    .replace(/^[ \t]*(?:\*|\/\/+)/gm, '')
    .replace(/`[^`]*`/g, 'code')
    .replace(/\s+/g, ' ')
    .trim();

const matches = (text: string): string[] =>
  constructions.flatMap((pattern) => [...text.matchAll(pattern)].map((match) => match[0].trim()));

function check(file: string, count: Count): void {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ESNext, true);
  const lineOf = (position: number): number => source.getLineAndCharacterOfPosition(position).line + 1;
  const seen = new Set<number>();
  const comment = ({ pos, end }: ts.CommentRange): void => {
    if (seen.has(pos)) return;
    seen.add(pos);
    const text = textOf(source.text.slice(pos, end));
    count.words += text.split(' ').filter((word) => /\p{L}/u.test(word)).length;
    for (const match of matches(text)) count.inComments.push({ file, line: lineOf(pos), text: `${match}: ${text}` });
  };
  const isTest = file.startsWith('test/') || file.startsWith('bench/');
  const visit = (node: ts.Node): void => {
    for (const range of ts.getLeadingCommentRanges(source.text, node.getFullStart()) ?? []) comment(range);
    for (const range of ts.getTrailingCommentRanges(source.text, node.getEnd()) ?? []) comment(range);
    const isText =
      ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node) || ts.isTemplateExpression(node);
    if (isText && !isTest) {
      const text = node.getText(source).slice(1, -1);
      if (isProse(text)) {
        for (const match of matches(text))
          count.inTexts.push({ file, line: lineOf(node.getStart(source)), text: `${match}: ${text}` });
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
}

const { values } = parseArgs({ options: { list: { type: 'string' } } });
const files = execFileSync('git', ['ls-files', '*.ts', '*.tsx'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => file !== '' && !file.startsWith('proto/') && file !== 'scripts/check-language.ts');
let failed = false;
for (const folder of folders) {
  const count: Count = { words: 0, inComments: [], inTexts: [] };
  for (const file of files) if (file.startsWith(`${folder}/`) || file === `${folder}.ts`) check(file, count);
  const most = Math.ceil((count.words * PER_THOUSAND_WORDS) / 1_000);
  const bad = count.inComments.length > most || count.inTexts.length > 0;
  failed ||= bad;
  if (bad || values.list === folder)
    console.log(
      `${folder}: ${count.inComments.length} in ${count.words} words of comments (at most ${most}), ${count.inTexts.length} in texts`,
    );
  if (values.list === folder) {
    for (const { file, line, text } of [...count.inComments, ...count.inTexts])
      console.log(`  ${file}:${line} ${text}`);
  }
}
if (failed) process.exitCode = 1;
