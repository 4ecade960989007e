/** How a user runs this program: from a checkout by npm, from the installed package by its name. */
export const INVOCATION = import.meta.url.endsWith('.ts') ? 'npm run -s cli --' : 'twinkeep';
