/** A text that is already HTML. */
export interface Markup {
  html: string;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

export const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => entities[character] as string);

export type Part = Markup | string | number | false | null | undefined | readonly Part[];

/** Template tag for HTML: escapes every value that is not `Markup`. */
export const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Markup => ({
  html: strings.reduce((before, text, index) => before + textOf(parts[index - 1]) + text),
});

function textOf(part: Part): string {
  if (part === undefined || part === null || part === false) return '';
  if (typeof part === 'string' || typeof part === 'number') return escaped(`${part}`);
  return 'html' in part ? part.html : part.map(textOf).join('');
}

/** Renders the Markdown subset of the descriptions: paragraphs, `- ` lists, `code` and *emphasis*. */
export function prose(text: string): Markup {
  const blocks = text.split(/\n\n+/).map((block) => {
    const lines = block.split('\n');
    if (lines.every((line) => line.startsWith('- '))) {
      return html`<ul>${lines.map((line) => html`<li>${inline(line.slice(2))}</li>`)}</ul>`;
    }
    return html`<p>${inline(block)}</p>`;
  });
  return html`${blocks}`;
}

export function inline(text: string): Markup {
  const marked = escaped(text)
    .split(/(`[^`]+`)/)
    .map((piece) =>
      piece.startsWith('`') && piece.length > 2
        ? `<code>${piece.slice(1, -1)}</code>`
        : piece.replace(/\*([^*\s][^*]*)\*/g, '<em>$1</em>'),
    );
  return { html: marked.join('') };
}
