import { readFileSync } from 'node:fs';

/** Memory of a process, in bytes. */
export interface ProcessMemory {
  resident: number;
  /** Pages that several processes use count in parts: each process has an equal one. */
  proportional: number;
  private: number;
}

/** As Linux reports it (proc(5), `smaps_rollup`). */
export function memoryOf(pid: number): ProcessMemory {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const read = (name: string) => Number(new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(text)?.[1]) * 1024;
  return { resident: read('Rss'), proportional: read('Pss'), private: read('Private_Clean') + read('Private_Dirty') };
}
