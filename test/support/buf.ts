import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const root = new URL('../../', import.meta.url).pathname;
const run = promisify(execFile);

export interface BufAnswer {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs `buf` in the project (or in `cwd`) without network access: its proxy is a closed port. */
export async function buf(args: readonly string[], { cwd = root }: { cwd?: string } = {}): Promise<BufAnswer> {
  const env = {
    ...process.env,
    PATH: `${root}node_modules/.bin:${process.env.PATH}`,
    HTTPS_PROXY: 'http://127.0.0.1:1',
  };
  try {
    return { code: 0, ...(await run(`${root}node_modules/.bin/buf`, args, { cwd, env })) };
  } catch (error) {
    const { code, stdout, stderr } = error as BufAnswer;
    if (typeof code !== 'number') throw error;
    return { code, stdout, stderr };
  }
}
