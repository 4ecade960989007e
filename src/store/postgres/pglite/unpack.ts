import { workerData } from 'node:worker_threads';
import { extract } from 'tar';

/*
 * Entry of a thread that unpacks the files of a new database and ends, which returns its memory. The main thread loads
 * the modules of the service meanwhile.
 */

export interface Unpacking {
  /** A gzipped tar archive. */
  file: string;
  /** An empty folder. */
  cwd: string;
}

const { file, cwd } = workerData as Unpacking;
extract({ file, cwd, sync: true, strict: true, noMtime: true });
