import { existsSync } from 'node:fs';
import { expect, it } from 'vitest';
import { SocketLock } from '../../../src/store/lock/socket-lock.ts';

/** Accepts no files, not even of root. */
const READ_ONLY = '/sys/kernel';

it.runIf(existsSync(READ_ONLY))('a folder that accepts no lock file is named', async () => {
  const lock = new SocketLock(READ_ONLY);
  await expect(lock.acquire(new AbortController().signal)).rejects.toThrow(
    /^DATA_DIR does not accept a lock file in \/sys\/kernel \(E[A-Z]+\)$/,
  );
});
