import { asCode, lineAt, type Passage, type Reader } from './passage.ts';

const fenced = /^([ \t]*)(```+|~~~+)(\w*).*\n([\s\S]*?)^\1\2[ \t]*$/gm;
const indentedCode = /(?<=\n\n)(?: {4}.*\n)+/g;
const quotedCode = /(`+)(?!`)(?:(?!\n\n)[\s\S])*?\1/g;
const address = /(?<=\])\([^)\s]*\)|<[^>\n]+>/g;

const emptyLines = (text: string): string => text.replace(/.+/g, '');

/** Headings, paragraphs, list items and table cells. */
function blocksIn(prose: string): Passage[] {
  const blocks: Passage[] = [];
  let open: Passage | undefined;
  for (const [index, line] of prose.split('\n').entries()) {
    const mark = /^\s*(?:#+ |[-*] |\d+\. |\|)?/.exec(line)?.[0] ?? '';
    const kind = mark.trim();
    const text = line.slice(mark.length);
    if (open !== undefined && kind === '' && text !== '') {
      open.text += `\n${text}`;
      continue;
    }
    const parts = kind === '|' ? text.split('|') : [text];
    const passages = parts.map((part): Passage => ({ kind: 'prose', line: index + 1, text: part }));
    blocks.push(...passages.filter((passage) => /\p{L}/u.test(passage.text)));
    open = kind === '|' || kind.startsWith('#') || text === '' ? undefined : blocks.at(-1);
  }
  return blocks;
}

/**
 * Markdown without code and addresses of links. Of code, the comments of the languages in `readers` are read; sessions
 * and outputs (`console`, `json`, no language) are quotations.
 */
export const markdownReader =
  (readers: ReadonlyMap<string, Reader>): Reader =>
  (source, file) => {
    const comments: Passage[] = [];
    const withoutFences = source.replace(
      fenced,
      (block, _indent, _fence, language: string, code: string, at: number) => {
        const opening = lineAt(source, at);
        const passages = readers.get(language)?.(code, `${file}.${language}`) ?? [];
        for (const passage of passages.filter(({ kind }) => kind === 'prose'))
          comments.push({ ...passage, line: opening + passage.line });
        return emptyLines(block);
      },
    );
    const prose = withoutFences
      .replace(indentedCode, emptyLines)
      .replace(/^> ?/gm, '')
      .replace(quotedCode, asCode)
      .replace(address, '')
      .replaceAll('**', '');
    return [...blocksIn(prose), ...comments];
  };
