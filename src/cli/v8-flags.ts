import { setFlagsFromString } from 'node:v8';

/**
 * Sets the V8 flags of the service. V8 would allocate short-lived objects of commands in the old generation
 * (bench/what-was-tried.md). Call it after the modules are loaded: V8 takes compiled code from a cache only with the flags with
 * which it was compiled. Node.js has such code of its own modules, which saves 50 ms, and other commands cache that of
 * modules of the service.
 */
export const setV8Flags = (): void => setFlagsFromString('--no-allocation-site-pretenuring');
