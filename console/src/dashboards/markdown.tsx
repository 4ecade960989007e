import type { ReactNode } from 'react';

// A part of Markdown without HTML, links and images: the text is written by other people, so it can only be text.

/** `**bold**` and `*italics*` of a line. */
function inline(text: string): ReactNode[] {
  return text.split(/(\*\*[^*]+\*\*|\*[^*]+\*)/).map((part, index) => {
    const key = `${index} ${part}`;
    if (/^\*\*[^*]+\*\*$/.test(part)) return <strong key={key}>{part.slice(2, -2)}</strong>;
    return /^\*[^*]+\*$/.test(part) ? <em key={key}>{part.slice(1, -1)}</em> : part;
  });
}

type Block = { kind: 'heading' | 'list' | 'paragraph'; lines: string[] };

function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  let isNew = true;
  for (const line of text.split('\n')) {
    const [, mark = '', rest = ''] = /^(#{1,3} |[-*] )?(.*)$/.exec(line) ?? [];
    const kind = mark.startsWith('#') ? 'heading' : mark === '' ? 'paragraph' : 'list';
    const last = blocks.at(-1);
    if (line.trim() === '') isNew = true;
    else if (!isNew && last?.kind === kind && kind !== 'heading') last.lines.push(rest);
    else blocks.push({ kind, lines: [rest] });
    if (line.trim() !== '') isNew = false;
  }
  return blocks;
}

/** Headings, lists, paragraphs, bold and italics; everything else is shown as it was written. */
export function Markdown({ text }: { text: string }) {
  return blocksOf(text).map(({ kind, lines }, index) => {
    const key = `${index} ${kind}`;
    const shown = lines.map((line, n) => ({ key: `${n} ${line}`, content: inline(line) }));
    if (kind === 'heading')
      return (
        <p key={key} className="tile-heading">
          {shown[0]?.content}
        </p>
      );
    if (kind === 'list')
      return (
        <ul key={key}>
          {shown.map((line) => (
            <li key={line.key}>{line.content}</li>
          ))}
        </ul>
      );
    return (
      <p key={key}>
        {shown.map((line, n) => (
          <span key={line.key}>
            {n > 0 && <br />}
            {line.content}
          </span>
        ))}
      </p>
    );
  });
}
