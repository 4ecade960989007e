/** Style sheet of the sign-in pages, with the colours of the console. */
export const STYLE = `:root {
  color-scheme: light dark;
  --ground: #f2f5f7;
  --panel: #fff;
  --line: #d5dee4;
  --strong-line: #8697a3;
  --text: #14212b;
  --quiet: #4d606d;
  --accent: #0b6a66;
  --on-accent: #fff;
  --bad: #b3261e;
  --good: #1a6f45;
  --shadow: 0 1px 2px rgb(16 32 44 / 6%), 0 8px 24px rgb(16 32 44 / 6%);
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0d1419;
    --panel: #141d24;
    --line: #2a3944;
    --strong-line: #60727f;
    --text: #e6eef3;
    --quiet: #9fb2be;
    --accent: #54d6c5;
    --on-accent: #06211e;
    --bad: #ff9a90;
    --good: #6fdca0;
    --shadow: 0 1px 2px rgb(0 0 0 / 30%), 0 8px 24px rgb(0 0 0 / 25%);
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--ground); color: var(--text); font: 0.9375rem/1.5 system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { width: min(26rem, 100%); padding: 2rem; background: var(--panel); border: 1px solid var(--line); border-radius: 16px; box-shadow: var(--shadow); overflow-wrap: anywhere; }
.mark { display: block; width: 2.75rem; height: 2.75rem; }
code { font-family: ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 0.9em; }
h1 { margin: 0.75rem 0 0.25rem; font-size: 1.5rem; line-height: 1.25; letter-spacing: -0.01em; }
h2 { margin: 1.5rem 0 0.5rem; font-size: 1.1rem; }
p { margin: 0.5rem 0; }
.quiet { color: var(--quiet); font-size: 0.85rem; }
#status:empty { display: none; }
#status { padding: 0.6rem 0.8rem; border-inline-start: 4px solid var(--accent); }
#status.bad { border-color: var(--bad); color: var(--bad); }
#status.good { border-color: var(--good); color: var(--good); }
label { display: block; margin-top: 1.25rem; font-weight: 550; }
input { width: 100%; min-height: 2.25rem; padding: 0.4rem 0.65rem; font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--strong-line); border-radius: 8px; }
#user-code { font: 600 1.5rem/1.4 ui-monospace, monospace; letter-spacing: 0.3em; text-transform: uppercase; text-align: center; }
button, .button { display: block; width: 100%; min-height: 2.6rem; margin-top: 0.9rem; padding: 0.35rem 0.9rem; font: inherit; font-weight: 550; text-align: center; color: var(--on-accent); background: var(--accent); border: 1px solid var(--accent); border-radius: 8px; text-decoration: none; cursor: pointer; }
button.plain { display: inline; width: auto; min-height: 0; color: var(--accent); background: none; border-color: transparent; padding-inline: 0.25rem; margin: 0; text-decoration: underline; }
button:disabled { opacity: 0.6; cursor: progress; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
`;
