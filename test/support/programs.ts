import { accessSync, constants } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';

/** Paths of programs that some tests run, null where they are not installed; `inject('programs')` in a test. */
export interface Programs {
  chromium: string | null;
  prometheus: string | null;
  promtool: string | null;
}

export const findPrograms = (): Programs => ({
  chromium: program('chromium'),
  prometheus: program('prometheus'),
  promtool: program('promtool'),
});

/** The path of a program, or null. */
export function program(name: string, folders: readonly string[] = []): string | null {
  for (const folder of [...folders, ...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']) {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // not here
    }
  }
  return null;
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}
