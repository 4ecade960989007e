/** Style sheet of the sign-in pages, with the colours of the console. */
export const STYLE = `:root {
  color-scheme: light dark;
  --ground: #f2f5f7;
  --panel: #fff;
  --line: #8697a3;
  --text: #14212b;
  --quiet: #4d606d;
  --accent: #0b6a66;
  --on-accent: #fff;
  --bad: #b3261e;
  --good: #1a6f45;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0d1419;
    --panel: #141d24;
    --line: #60727f;
    --text: #e6eef3;
    --quiet: #9fb2be;
    --accent: #54d6c5;
    --on-accent: #06211e;
    --bad: #ff9a90;
    --good: #6fdca0;
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--ground); color: var(--text); font: 1rem/1.55 system-ui, sans-serif; }
main { width: min(30rem, 100%); padding: 1.75rem; background: var(--panel); border: 1px solid var(--line); border-radius: 12px; overflow-wrap: anywhere; }
h1 { margin: 0 0 0.75rem; font-size: 1.45rem; line-height: 1.25; }
h2 { margin: 1.5rem 0 0.5rem; font-size: 1.1rem; }
p { margin: 0.5rem 0; }
.quiet { color: var(--quiet); font-size: 0.92rem; }
#status:empty { display: none; }
#status { padding: 0.6rem 0.8rem; border-inline-start: 4px solid var(--accent); }
#status.bad { border-color: var(--bad); color: var(--bad); }
#status.good { border-color: var(--good); color: var(--good); }
label { display: block; margin-top: 0.75rem; font-weight: 600; }
input { width: 100%; margin-top: 0.25rem; padding: 0.6rem 0.7rem; font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--line); border-radius: 8px; }
#user-code { font: 600 1.5rem/1.4 ui-monospace, monospace; letter-spacing: 0.3em; text-transform: uppercase; text-align: center; }
button, .button { display: inline-block; margin-top: 0.9rem; padding: 0.6rem 1.1rem; font: inherit; font-weight: 600; color: var(--on-accent); background: var(--accent); border: 1px solid var(--accent); border-radius: 8px; text-decoration: none; cursor: pointer; }
button.plain { color: var(--accent); background: none; border-color: transparent; padding-inline: 0.25rem; margin: 0; text-decoration: underline; }
button:disabled { opacity: 0.6; cursor: progress; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
`;
