import { setFlagsFromString } from 'node:v8';

/**
 * Sets the V8 flags of the service. V8 would allocate short-lived objects of commands in the old generation
 * (bench/what-was-tried.md). With this flag on its command line Node.js does not use the compiled code of its own modules,
 * which costs 50 ms in each start.
 */
export const setV8Flags = (): void => setFlagsFromString('--no-allocation-site-pretenuring');
