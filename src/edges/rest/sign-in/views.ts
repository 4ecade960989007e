import type { Content } from '../../shared/exchange.ts';
import { html, type Markup } from '../docs/markup.ts';

// Nothing inline, nothing from elsewhere, in nobody's frame.
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; " +
  "base-uri 'none'; frame-ancestors 'none'";

export interface ApprovalPageData {
  /** Of the service, as the person sees it in the address bar. */
  service: string;
  /** What the command line says about where it runs; nobody vouches for it. */
  computer: string | null;
  openedAt: number;
  until: number;
  /** Where signing in at the identity provider begins, or null without one. */
  provider: string | null;
}

/** The page that a command line opens: sign in, then type what the terminal shows. */
export const approvalPage = ({ service, computer, openedAt, until, provider }: ApprovalPageData): Content =>
  page(
    'Sign in a command line',
    html`<p>A command line${computer !== null && html` on a computer that calls itself <strong>${computer}</strong>`} asks to act
as you at <strong>${service}</strong>.</p>
<p class="quiet">Asked at ${clockTime(openedAt)}. This page is good until ${clockTime(until)}.</p>
<p id="status" role="status" aria-live="polite"></p>
<noscript><p>This page needs JavaScript.</p></noscript>
<section id="sign-in" aria-labelledby="sign-in-title" hidden>
<h2 id="sign-in-title">First, who are you?</h2>
${provider !== null && html`<p><a class="button" href="${provider}">Sign in with your identity provider</a></p>`}
<form id="token-form">
<label for="token">${provider === null ? 'A token of yours' : 'Or a token of yours'}</label>
<input id="token" type="password" autocomplete="off" spellcheck="false" required maxlength="8192" aria-describedby="token-help">
<p id="token-help" class="quiet">Such as <code>twinkeep token --sub me</code> prints. It is turned into a session of this browser and kept nowhere.</p>
<button>Sign in</button>
</form>
</section>
<section id="approve" aria-labelledby="approve-title" hidden>
<h2 id="approve-title">Is it you at the terminal?</h2>
<form id="sign-out-form"><p>You are signed in as <strong id="who"></strong>. <button class="plain">Somebody else?</button></p></form>
<form id="approve-form">
<label for="user-code">The 6 characters that your terminal shows</label>
<input id="user-code" autocomplete="off" autocapitalize="characters" spellcheck="false" required maxlength="9" aria-describedby="user-code-help">
<p id="user-code-help" class="quiet">If you did not just start this in a terminal of your own, close this page: whoever sent you here
would act as you for an hour.</p>
<button>Allow</button>
</form>
</section>`,
    { script: true },
  );

/** For people, where a program would get a problem document. */
export const refusalPage = (title: string, detail: string, status: number): Content => ({
  ...page(title, html`<p id="status" class="bad" role="alert">${detail}</p>`),
  status,
});

function page(title: string, body: Markup, { script = false } = {}): Content {
  const whole = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Twinkeep</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="assets/sign-in.css">
${script && html`<script type="module" src="assets/sign-in.js"></script>\n`}</head>
<body>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`;
  return { type: 'text/html; charset=utf-8', body: whole.html, policy: POLICY };
}

function clockTime(at: number): Markup {
  const iso = new Date(at).toISOString();
  return html`<time datetime="${iso}">${iso.slice(11, 16)} UTC</time>`;
}
