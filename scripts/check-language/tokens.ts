import { commentText, hasThreeWords, lineAt, type Passage, type Reader } from './passage.ts';

/**
 * A reader for a language whose comments and texts one expression recognizes, in the groups `comment` and `text`. It
 * matches other quotes without a group, because a comment sign in quotes starts no comment.
 */
function tokenReader(...tokens: readonly string[]): Reader {
  const token = new RegExp(tokens.join('|'), 'gm');
  return (source) =>
    [...source.matchAll(token)].flatMap(({ index, 0: matched, groups = {} }): Passage[] => {
      const { comment, text } = groups;
      if (comment !== undefined) return [{ kind: 'prose', line: lineAt(source, index), text: commentText(comment) }];
      if (text === undefined || !hasThreeWords(text)) return [];
      return [{ kind: 'text', line: lineAt(source, index + matched.indexOf(text)), text }];
    });
}

/** Comments of consecutive lines are one comment, because a sentence continues in the next line. */
const lineComment = (sign: string): string => String.raw`(?<comment>${sign}.*(?:\n[ \t]*${sign}.*)*)`;
const hash = `(?<=^|\\s)(?!#!)${lineComment('#')}`;
const slashes = lineComment('\\/\\/');
const stars = String.raw`(?<comment>\/\*[\s\S]*?\*\/)`;
const singleQuoted = String.raw`'(?<text>(?:\\.|[^'\\\n])*)'`;
const doubleQuoted = String.raw`"(?<text>(?:\\.|[^"\\\n])*)"`;

/** Quotes over several lines are programs for another interpreter. */
export const readShell = tokenReader(
  hash,
  `'(?<text>[^'\\n]*)'`,
  `'[^']*'`,
  doubleQuoted,
  String.raw`"(?:\\.|[^"\\])*"`,
);

/** A string in triple quotes is documentation. */
export const readPython = tokenReader(String.raw`"""(?<comment>[\s\S]*?)"""`, hash, singleQuoted, doubleQuoted);

/** A comment sign in a character constant starts no comment. */
export const readC = tokenReader(stars, slashes, String.raw`'(?:\\.|[^'\\\n])+'`, doubleQuoted);

export const readCss = tokenReader(stars, singleQuoted, doubleQuoted);

export const readProto = tokenReader(stars, slashes, '"[^"\\n]*"');

/** Comments alone: strings of SQL are data. */
export const readSql = tokenReader(stars, lineComment('--'), "'[^']*'");

const described = '(?:- )?(?:description|summary|title|help|message): +';
const inBlock = String.raw`(?:\n\k<indent> +\S.*|\n[ \t]*(?=\n))+`;

/** Comments and the values of `description`, `summary`, `title`, `help` and `message`. */
export const readYaml = tokenReader(
  `^(?<indent> *)${described}[>|][+-]?(?<text>${inBlock})`,
  String.raw`^(?<indent> *)[^#\n]*: +[>|][+-]?${inBlock}`,
  String.raw`(?<=^ *${described})['"]?(?<text>[^\s>|'"].*)`,
  hash,
  `(?<=[\\s[{,])'[^'\\n]*'`,
  String.raw`(?<=[\s[{,])"(?:\\.|[^"\\\n])*"`,
);

/** HTML and SVG: comments, text nodes, and the attributes that a page shows or a screen reader reads. */
export const readHtml = tokenReader(
  String.raw`<!--(?<comment>[\s\S]*?)-->`,
  String.raw`<(?:script|style)\b[\s\S]*?<\/(?:script|style)>`,
  String.raw`(?<=\s(?:title|alt|aria-label|placeholder|content)=")(?<text>[^"]*)`,
  '(?<=>)(?<text>[^<]+)',
);

/** Templates of Helm without output: comments. */
export const readTemplate = tokenReader(String.raw`\{\{-? *(?<comment>\/\*[\s\S]*?\*\/)`);

/** Text that a program shows, without the actions of Helm's templates. */
export const readText = tokenReader(String.raw`\{\{[\s\S]*?\}\}`, String.raw`(?<text>[^\s{](?:[^\n{]|\{(?!\{))*)`);
