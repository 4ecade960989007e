import { html, type Markup } from './markup.ts';

const navigation = [
  { path: '/docs', name: 'REST API' },
  { path: '/docs/events', name: 'Events' },
  { path: '/graphql', name: 'GraphQL' },
  { path: '/openapi.json', name: 'openapi.json' },
  { path: '/asyncapi.json', name: 'asyncapi.json' },
] as const;

/** A documentation page with the navigation bar. No inline scripts or styles: the Content-Security-Policy forbids them. */
export function renderPage(page: {
  path: string;
  title: string;
  styles: readonly string[];
  scripts?: readonly string[];
  body: Markup;
}): string {
  const markup = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${page.title}</title>
<link rel="icon" href="/docs/favicon-32x32.png">
${page.styles.map((file) => html`<link rel="stylesheet" href="/docs/${file}">\n`)}</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<nav class="bar" aria-label="API reference"><strong>Twinkeep</strong>
${navigation.map(({ path, name }) => html`<a href="${path}"${path === page.path && html` aria-current="page"`}>${name}</a>\n`)}</nav>
${page.body}
${(page.scripts ?? []).map((file) => html`<script src="/docs/${file}"></script>\n`)}</body>
</html>
`;
  return markup.html;
}
