/** The console's own path, as `/console`, and the service's before it: both as this file was loaded from. */
const own = import.meta.env.DEV ? '/console/' : new URL(/* @vite-ignore */ '..', import.meta.url).pathname;

export const CONSOLE_PATH = own.replace(/\/$/, '');
export const SERVICE_PATH = CONSOLE_PATH.replace(/\/console$/, '');
