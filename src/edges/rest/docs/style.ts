/** Of the bar over both references, and of the page about events. */
export const STYLE = `:root {
  color-scheme: light dark;
  --ground: #fff;
  --panel: #f6f7f9;
  --line: #d8dce3;
  --text: #1b2330;
  --quiet: #55607a;
  --link: #0b5cad;
  --in: #1d6b43;
  --out: #8a4b08;
  --code: #eef1f6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14181f;
    --panel: #1b212b;
    --line: #343d4d;
    --text: #e6eaf1;
    --quiet: #a5b0c5;
    --link: #7db8ff;
    --in: #7ad3a4;
    --out: #f0b26b;
    --code: #262e3b;
  }
}
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
.bar { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; align-items: baseline; padding: 0.7rem 1.25rem; border-bottom: 1px solid var(--line); background: var(--panel); }
.bar strong { margin-inline-end: auto; }
.bar a, main a { color: var(--link); }
.bar a[aria-current] { color: var(--text); font-weight: 600; text-decoration: none; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; inset-inline-start: -99rem; }
.skip:focus { inset-inline-start: 0.5rem; background: var(--ground); padding: 0.5rem; }
.events { max-width: 56rem; margin: 0 auto; padding: 1.25rem; overflow-wrap: anywhere; }
.events h1 { font-size: 1.7rem; line-height: 1.25; margin: 0.5rem 0; }
.events h2 { font-size: 1.35rem; margin: 2.5rem 0 0.5rem; padding-top: 0.75rem; border-top: 1px solid var(--line); }
.events h3 { font-size: 1.1rem; margin: 0 0 0.25rem; }
.events h4 { font-size: 1rem; margin: 1.25rem 0 0.25rem; }
.events p, .events ul { margin: 0.4rem 0; }
.events ul { padding-inline-start: 1.25rem; }
code, pre { font: 0.9em/1.5 ui-monospace, monospace; }
.events code { background: var(--code); border-radius: 4px; padding: 0.1em 0.3em; }
.events pre { background: var(--code); border-radius: 6px; padding: 0.75rem; overflow: auto; max-height: 24rem; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: 1rem; margin: 1rem 0; }
.way { font-weight: 600; font-size: 0.9rem; }
.in { color: var(--in); }
.out { color: var(--out); }
.quiet { color: var(--quiet); font-size: 0.9rem; }
.contents { columns: 2 14rem; list-style: none; padding: 0 !important; }
.fields { margin: 0.5rem 0; }
.fields dt { margin-top: 0.5rem; }
.fields dd { margin: 0; padding-inline-start: 1rem; }
summary { cursor: pointer; color: var(--link); margin-top: 0.5rem; }
@media (max-width: 640px) {
  .swagger-ui .opblock-tag { flex-wrap: wrap; }
  .swagger-ui .opblock-tag small { flex: 1 0 100%; order: 3; padding: 0; }
  .swagger-ui .opblock .opblock-summary { flex-wrap: wrap; }
  .swagger-ui .opblock-summary-path { max-width: 100% !important; }
}
`;
