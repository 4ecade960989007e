import ts from 'typescript';
import { asCode, commentText, hasThreeWords, type Passage } from './passage.ts';
import { readSql } from './tokens.ts';

const isSql = (text: string): boolean =>
  /^\s*(?:(?:select|insert|update|delete|with|create|alter|drop|set|lock)\b|--)/i.test(text);

const titled = new Set(['describe', 'it', 'test', 'eachStore', 'eachDatabase']);

/** True for the first argument of `describe`, `it` and the like, also with `.each(rows)` or `.runIf(condition)`. */
function isTitle(node: ts.Node): boolean {
  if (!ts.isCallExpression(node.parent) || node.parent.arguments[0] !== node) return false;
  let called: ts.Node = node.parent.expression;
  while (ts.isCallExpression(called) || ts.isPropertyAccessExpression(called)) called = called.expression;
  return ts.isIdentifier(called) && titled.has(called.text);
}

/** The text of a string or of JSX, with `code` for each expression in it; undefined for any other node. */
function textOf(node: ts.Node): string | undefined {
  if (ts.isJsxText(node)) return node.text;
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.getText().slice(1, -1);
  if (!ts.isTemplateExpression(node)) return undefined;
  const spans = node.templateSpans.map(
    ({ expression, literal }) => asCode(expression.getFullText()) + (literal.rawText ?? literal.text),
  );
  return (node.head.rawText ?? node.head.text) + spans.join('');
}

/**
 * TypeScript and JavaScript: comments, strings and JSX text, and the comments of SQL in strings. The strings of tests and
 * benchmarks are data, except for titles.
 */
export function readTypeScript(source: string, file: string): Passage[] {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.ESNext, true);
  const lineOf = (position: number): number => tree.getLineAndCharacterOfPosition(position).line + 1;
  const comments = new Map<number, Passage>();
  const texts: Passage[] = [];
  const isTest = /^(?:test|bench)\//.test(file);
  const visit = (node: ts.Node): void => {
    const leading = ts.getLeadingCommentRanges(source, node.getFullStart()) ?? [];
    const trailing = ts.getTrailingCommentRanges(source, node.getEnd()) ?? [];
    for (const { pos, end } of [...leading, ...trailing])
      comments.set(pos, { kind: 'prose', line: lineOf(pos), text: commentText(source.slice(pos, end)) });
    const text = textOf(node);
    if (text !== undefined) {
      const line = lineOf(node.getStart());
      if (isSql(text))
        texts.push(...readSql(text, file).map((comment) => ({ ...comment, line: line + comment.line - 1 })));
      else if (isTest ? isTitle(node) : hasThreeWords(text)) texts.push({ kind: 'text', line, text });
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return [...comments.values(), ...texts];
}
