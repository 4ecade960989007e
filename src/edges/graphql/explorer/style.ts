export const STYLE = `:root {
  color-scheme: light dark;
  --ground: #fff; --panel: #f6f7f9; --line: #d8dce3; --text: #1b2330; --quiet: #55607a; --link: #0b5cad; --wrong: #a3261b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14181f; --panel: #1b212b; --line: #343d4d; --text: #e6eaf1; --quiet: #a5b0c5; --link: #7db8ff; --wrong: #ff9d92;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
.bar { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; padding: 0.7rem 1.25rem; border-bottom: 1px solid var(--line); background: var(--panel); }
.bar strong { margin-inline-end: auto; }
a { color: var(--link); }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1.5rem; padding: 1.25rem; }
section { min-width: 0; }
section[aria-labelledby='schema'] { grid-column: 1 / -1; }
h1, h2 { font-size: 1.2rem; margin: 0 0 0.5rem; }
label { display: block; margin: 0.6rem 0 0.2rem; font-weight: 600; }
input, textarea { width: 100%; padding: 0.5rem; background: var(--panel); color: var(--text); border: 1px solid var(--quiet); border-radius: 6px; }
textarea, pre, code { font: 0.9rem/1.45 ui-monospace, monospace; }
button { padding: 0.45rem 1.1rem; border: 1px solid var(--link); border-radius: 6px; background: var(--ground); color: var(--link); font: inherit; cursor: pointer; }
button:disabled { border-color: var(--line); color: var(--quiet); cursor: default; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
pre { min-height: 8rem; max-height: 70vh; overflow: auto; padding: 0.75rem; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere; }
.quiet { color: var(--quiet); font-weight: 400; font-size: 0.9rem; }
.wrong { color: var(--wrong); }
details { border-top: 1px solid var(--line); padding: 0.4rem 0; overflow-wrap: anywhere; }
summary { cursor: pointer; }
dl { margin: 0.4rem 0; padding-inline-start: 1rem; }
dd { margin: 0 0 0.5rem; }
`;
