import type { Content } from '../../shared/http-exchange.ts';
import { html, type Markup } from './markup.ts';

// Forbids inline code, other origins, and framing.
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
  "base-uri 'none'; frame-ancestors 'none'";

export interface ApprovalPageData {
  /** Host of the service, as shown in the address bar. */
  service: string;
  /** Host name that the command line sent; not verified. */
  computer: string | null;
  openedAt: number;
  until: number;
  /** URL that starts the sign-in at the identity provider; null without one. */
  provider: string | null;
}

/** The page that a command line opens: sign in, then enter the code that the terminal shows. */
export const approvalPage = ({ service, computer, openedAt, until, provider }: ApprovalPageData): Content =>
  page(
    'Sign in a command line',
    html`<p>A command line${computer !== null && html` on the computer <strong>${computer}</strong> (not verified)`} requests access
to <strong>${service}</strong> with your account.</p>
<p class="quiet">Requested at ${clockTime(openedAt)}. This page is valid until ${clockTime(until)}.</p>
<p id="status" role="status" aria-live="polite"></p>
<noscript><p>This page needs JavaScript.</p></noscript>
<section id="sign-in" aria-labelledby="sign-in-title" hidden>
<h2 id="sign-in-title">Sign in first</h2>
${provider !== null && html`<p><a class="button" href="${provider}">Sign in with your identity provider</a></p>`}
<form id="token-form">
<label for="token">${provider === null ? 'Your token' : 'Or your token'}</label>
<input id="token" type="password" autocomplete="off" spellcheck="false" required maxlength="8192" aria-describedby="token-help">
<p id="token-help" class="quiet">For example from <code>twinkeep token --sub me</code>. It is exchanged for a browser session and not stored.</p>
<button>Sign in</button>
</form>
</section>
<section id="approve" aria-labelledby="approve-title" hidden>
<h2 id="approve-title">Is it you at the terminal?</h2>
<form id="sign-out-form"><p>You are signed in as <strong id="who"></strong>. <button class="plain">Not you?</button></p></form>
<form id="approve-form">
<label for="user-code">The 6-character code in your terminal</label>
<input id="user-code" autocomplete="off" autocapitalize="characters" spellcheck="false" required maxlength="9" aria-describedby="user-code-help">
<p id="user-code-help" class="quiet">If you did not just start this in your own terminal, close this page. Otherwise another person could
use your account for an hour.</p>
<button>Allow</button>
</form>
</section>`,
    { script: true },
  );

/** A refusal as an HTML page. */
export const refusalPage = (title: string, detail: string, status: number): Content => ({
  ...page(title, html`<p id="status" class="bad" role="alert">${detail}</p>`),
  status,
});

function page(title: string, body: Markup, { script = false } = {}): Content {
  const markup = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Twinkeep</title>
<link rel="icon" href="assets/mark.svg">
<link rel="stylesheet" href="assets/sign-in.css">
${script && html`<script type="module" src="assets/sign-in.js"></script>\n`}</head>
<body>
<main>
<img class="mark" src="assets/mark.svg" alt="">
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`;
  return { type: 'text/html; charset=utf-8', body: markup.html, policy: POLICY };
}

function clockTime(at: number): Markup {
  const iso = new Date(at).toISOString();
  return html`<time datetime="${iso}">${iso.slice(11, 16)} UTC</time>`;
}
