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

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => entities[character] as string);

type Part = Markup | string | number | false | null | undefined | readonly Part[];

/** Template tag for HTML: escapes every value that is not `Markup`. */
export const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Markup => ({
  html: strings.reduce((before, text, index) => before + textOf(parts[index - 1]) + text),
});

function textOf(part: Part): string {
  if (part === undefined || part === null || part === false) return '';
  if (typeof part === 'string' || typeof part === 'number') return escaped(`${part}`);
  return 'html' in part ? part.html : part.map(textOf).join('');
}
