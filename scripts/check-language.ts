/**
 * Counts literary constructions in comments and in texts for people (log lines, errors, descriptions, interface text,
 * titles of tests): at most 2 per 1,000 words of comments in each folder, none in texts. `--list FOLDER` prints the
 * findings of a folder.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import ts from 'typescript';

const PER_THOUSAND_WORDS = 2;

/** Every source file belongs to one of these folders. */
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
  'reference',
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

/** True for text of at least three words that is not SQL. */
const isProse = (text: string): boolean =>
  /\p{L}+ +\p{L}+ +\p{L}+/u.test(text) &&
  !/^\s*(?:(?:select|insert|update|delete|with|create|alter|drop|set|lock)\b|--)/i.test(text);

const titled = new Set(['describe', 'it', 'test', 'eachStore', 'eachDatabase']);

/** True for the first argument of `describe`, `it` and the like, also with `.each(rows)` or `.runIf(condition)`. */
function isTitle(node: ts.Node): boolean {
  if (!ts.isCallExpression(node.parent) || node.parent.arguments[0] !== node) return false;
  let called: ts.Node = node.parent.expression;
  while (ts.isCallExpression(called) || ts.isPropertyAccessExpression(called)) called = called.expression;
  return ts.isIdentifier(called) && titled.has(called.text);
}

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
    const isLiteral =
      ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node) || ts.isTemplateExpression(node);
    if (isLiteral || ts.isJsxText(node)) {
      const text = isLiteral ? node.getText(source).slice(1, -1) : node.getText(source);
      if (isTest ? isTitle(node) : isProse(text)) {
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
const isIn = (file: string, folder: string): boolean => file.startsWith(`${folder}/`) || file === `${folder}.ts`;
const unlisted = files.filter((file) => file.includes('/') && !folders.some((folder) => isIn(file, folder)));
for (const file of unlisted) console.log(`${file}: its folder is not in the list of this script`);
let failed = unlisted.length > 0;
for (const folder of folders) {
  const count: Count = { words: 0, inComments: [], inTexts: [] };
  for (const file of files) if (isIn(file, folder)) check(file, count);
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
