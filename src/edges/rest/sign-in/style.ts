/** Style sheet of the sign-in pages. */
export const STYLE = `:root {
  color-scheme: light dark;
  --ground: #f3f5f8;
  --panel: #fff;
  --line: #c5ccd8;
  --text: #1b2330;
  --quiet: #4c566c;
  --accent: #0b5cad;
  --on-accent: #fff;
  --bad: #a3231c;
  --good: #1d6b43;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14181f;
    --panel: #1b212b;
    --line: #465064;
    --text: #e6eaf1;
    --quiet: #a5b0c5;
    --accent: #7db8ff;
    --on-accent: #10151d;
    --bad: #ff9b92;
    --good: #7ad3a4;
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
