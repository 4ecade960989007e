/** The console's path, usually `/console`, and the service's path before it, from the URL of this file. */
const base = import.meta.env.DEV ? '/console/' : new URL(/* @vite-ignore */ '..', import.meta.url).pathname;

export const CONSOLE_PATH = base.replace(/\/$/, '');
export const SERVICE_PATH = CONSOLE_PATH.replace(/\/console$/, '');
