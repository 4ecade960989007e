import { expect, it } from 'vitest';
import { html } from '../../../../src/edges/rest/sign-in/markup.ts';

it('escapes the values that it inserts', () => {
  const hostile = '<img src=x onerror="alert(\'1\')">&';
  const harmless = '&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;';
  expect(html`<p>${hostile}</p>`.html).toBe(`<p>${harmless}</p>`);
  expect(html`<p>${html`<b>${hostile}</b>`}</p>`.html).toBe(`<p><b>${harmless}</b></p>`);
});
